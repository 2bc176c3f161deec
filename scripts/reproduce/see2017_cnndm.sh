#!/usr/bin/env bash
# See, Liu, Manning 2017, Table 1: the pointer-generator as published, without and with coverage, on CNN/Daily Mail.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm50k -- --size 49996
#   scripts/reproduce/see2017_cnndm.sh --data data/cnndm50k [options] [-- options of fairseq-train]
#
#   --data DIR            output folder of the first command; 50,000 words, including the four special symbols
#   --out DIR             output folder (default: runs/see2017_cnndm in the repository)
#   --rows LIST           rows to run, out of pointer_generator pointer_generator_coverage (default: both; the second
#                         continues the first, which is trained if necessary)
#   --seeds LIST          random seeds for training (default: "1")
#   --cpu                 do not use a GPU
#   --stages LIST         length limits of documents and summaries in each training stage, in tokens (default: "50/15
#                         100/25 150/40 200/50 250/60 300/80 350/100 400/100")
#   --stage-steps N       number of steps in each stage except the last (default: 10000)
#   --steps N             number of steps in all stages together (default: 230000)
#   --coverage-steps N    number of further steps, with coverage (default: 3000)
#
#   ROW                          published R-1 / R-2 / R-L
#   pointer_generator            36.44 / 15.66 / 33.42
#   pointer_generator_coverage   39.53 / 17.28 / 36.38
#
# As in the paper and its code, the model has 21,499,600 parameters without the pointer, 1,153 more with it, and 512
# more with coverage. Training uses Adagrad with a learning rate of 0.15 and accumulators from 0.1, gradients clipped to
# a norm of 2, and batches of 16. The loss is averaged over the words of each summary and then over summaries. Lengths
# grow in stages, and a truncated summary has no end symbol. Coverage is added to the model with the best validation
# loss of the last stage: the accumulators are reset, and the coverage loss has a weight of 1. Decoding uses a beam of 4
# and 35 to 120 words, and divides the log-probability by the length. The paper says only that lengths grow; the
# schedule is from Hsu et al. 2018, who train the same model.
#
# Deviations: the text comes from scripts/prepare_cnndm.sh. The end symbol of a document is read and attended to. The
# best checkpoint is chosen by the validation loss itself, not by its running average. The search never writes <unk>.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="pointer_generator pointer_generator_coverage"
data="" out=$ROOT/runs/see2017_cnndm rows=$all seeds="1" steps=230000 stage_steps=10000 coverage_steps=3000
stages="50/15 100/25 150/40 200/50 250/60 300/80 350/100 400/100"
read_options "--data --out --rows --seeds --cpu --stages --stage-steps --steps --coverage-steps --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" coverage_steps
read_stages

say_vocabulary "$data/prepared" 49996 49996
for seed in $seeds; do
    plain=$out/pointer_generator-$seed
    train_pointer_generator "$plain" "$data/prepared" "$seed"
    for row in $rows; do
        run=$out/$row-$seed decoding=()
        if [ "$row" = pointer_generator_coverage ]; then
            train_stage "$run" "$data/prepared" "${lengths[${#lengths[@]} - 1]}" --arch "$row" --seed "$seed" --coverage-loss 1 \
                --init-from "$plain/checkpoints/checkpoint_best.pt" --max-update "$coverage_steps"
            # The checkpoint with the best likelihood is not used, because it may predate the training of coverage.
            decoding=(--checkpoint "$run/checkpoints/checkpoint_last.pt")
        fi
        summarise_and_score "$run" "$data" --beam 4 --min-len 35 --max-len 120 \
            "${decoding[@]}" "${device[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
