#!/usr/bin/env bash
# Explicit-Selection (Li, Xiao, Lyu, Wang 2018) on CNN/Daily Mail: sentences are selected for each sentence of a summary.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm-marks \
#       -- --size 49996 --source-sentence-marks
#   scripts/reproduce/explicit_selection_cnndm.sh --data data/cnndm-marks [options] [-- options of fairseq-train]
#
#   --data DIR            output folder of the first command; 50,000 words, including the four special symbols
#   --out DIR             output folder (default: runs/explicit_selection_cnndm in the repository)
#   --rows LIST           rows to run, out of explicit_selection explicit_selection_coverage (default: both; the second
#                         continues the first, which is trained if necessary)
#   --seeds LIST          random seeds for training (default: "1")
#   --cpu                 do not use a GPU
#   --selection-loss W    weight of the selection loss (default: 0.2)
#   --stages LIST         length limits of documents and summaries in each training stage, in tokens (default: "50/15
#                         100/25 150/40 200/50 250/60 300/80 350/100 400/100")
#   --stage-steps N       number of steps in each stage except the last (default: 10000)
#   --steps N             number of steps in all stages together (default: 230000)
#   --coverage-steps N    number of further steps, with coverage (default: 3000)
#
#   ROW                            published R-1 / R-2 / R-L
#   explicit_selection_coverage    41.54 / 18.18 / 36.47
#   explicit_selection             (the same model before coverage is added; no row of the paper)
#
# The paper's sizes, training and exact equations were not available to us. The following parts are from the paper:
# documents represented as sentences of words; a gate on sentences; a selector of sentences for each summary sentence,
# which initialises the decoder for this sentence and weights its attention; and a loss that compares the selector with
# the cosine similarities of sentences. docs/selection.md explains the other choices: sizes, training, stages and
# coverage are as in See et al. 2017 (see2017_cnndm.sh), with GRUs of width 256, and the selection loss has a weight of
# 0.2 from the first update. Decoding uses a beam of 5 and 35 to 120 words, blocks repeated trigrams, and divides the
# log-probability by the length.
#
# Deviations: the text comes from scripts/prepare_cnndm.sh. One beam search runs over all tokens of a summary, whereas
# the paper nests a search over words in a search over sentences. The search never writes <unk>. The published R-L is
# low compared with R-1, so it may treat each summary as one sentence; rouge.json contains both forms, rougeL and
# rougeLjoined.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="explicit_selection explicit_selection_coverage"
data="" out=$ROOT/runs/explicit_selection_cnndm rows=$all seeds="1" steps=230000 stage_steps=10000 coverage_steps=3000
stages="50/15 100/25 150/40 200/50 250/60 300/80 350/100 400/100" selection_loss=0.2
read_options "--data --out --rows --seeds --cpu --selection-loss --stages --stage-steps --steps --coverage-steps --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" coverage_steps
read_stages
prepared=$data/prepared model=(--arch explicit_selection --selection-loss "$selection_loss" --labels "$out/labels")

say_vocabulary "$prepared" 49996 49996
label_once "$out/labels" distribution "train valid"
for seed in $seeds; do
    plain=$out/explicit_selection-$seed
    train_in_stages "$plain" "$prepared" "$seed" "${model[@]}"
    for row in $rows; do
        run=$out/$row-$seed decoding=()
        if [ "$row" = explicit_selection_coverage ]; then
            train_stage "$run" "$prepared" "${lengths[${#lengths[@]} - 1]}" "${model[@]}" --seed "$seed" --coverage \
                --coverage-loss 1 --init-from "$plain/checkpoints/checkpoint_best.pt" --max-update "$coverage_steps"
            # The checkpoint with the best likelihood is not used, because it may predate the training of coverage.
            decoding=(--checkpoint "$run/checkpoints/checkpoint_last.pt")
        fi
        summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" --beam 5 --min-len 35 --max-len 120 \
            --no-repeat-ngram-size 3 "${decoding[@]}" "${device[@]}"
        score_once "$run" "$data/text" --metrics 1,2,L,Ljoined
    done
done
score_table "$out" "$rows" "$seeds"
