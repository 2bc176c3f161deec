#!/usr/bin/env bash
# Measure the effect of rewards on an extractor with a rewriter: Chen and Bansal's system, small, on long documents.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed -- --size 8000 --source-sentence-marks
#   scripts/reproduce/sumpubmed_rewrite.sh --data data/sumpubmed [options] [-- options of fairseq-train for all trainings]
#
#   --data DIR         output folder of scripts/prepare_sumpubmed.sh, with sentence marks
#   --out DIR          output folder (default: runs/sumpubmed_rewrite in the repository)
#   --rows LIST        rows of the table below to run (default: all)
#   --abstractor-steps N, --extractor-steps N   numbers of steps trained by likelihood and on labels (default: 1000 and
#                                               800)
#   --rl-steps N       number of training steps with rewards (default: 300)
#   --seeds LIST       random seeds for training (default: "1")
#   --cpu              do not use a GPU
#
#   ROW                summaries
#   labels             four sentences by an extractor trained on labels, each rewritten greedily
#   rewards            the sentences that it picks after training with rewards, until it stops, rewritten greedily
#   rerank             the same sentences with a diverse beam of 5, and the combination that repeats the fewest bigrams
#
# The settings are as in rewrite_cnndm.sh, except for the sizes (LSTMs of width 128, word vectors of width 100), fixed
# numbers of steps, and documents truncated to 200 words. The references have 3.6 sentences on average.
#
# The recipe can be interrupted and started again. It prints Markdown tables, statistics of copied and repeated words,
# and paired tests of rewards minus labels and of rerank minus rewards.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="labels rewards rerank"
data="" out=$ROOT/runs/sumpubmed_rewrite rows=$all seeds="1" abstractor_steps=1000 extractor_steps=800 rl_steps=300
read_options "--data --out --rows --seeds --cpu --abstractor-steps --extractor-steps --rl-steps --" "$@"
begin_recipe scripts/prepare_sumpubmed.sh "$all" abstractor_steps extractor_steps rl_steps
prepared=$data/prepared read=(--truncate-source 200)
small=(--encoder-embed-dim 100 --encoder-hidden-size 128 --num-workers 0)

prepare_rewriting 200
compared=()
for seed in $seeds; do
    train_rewriter abstractor "$seed" "${small[@]}" --max-update "$abstractor_steps"
    train_rewriter extractor "$seed" "${small[@]}" "${read[@]}" --max-update "$extractor_steps"
    for row in $rows; do
        [ "$row" = labels ] || train_rewriter actor "$seed" "${small[@]}" "${read[@]}" --max-update "$rl_steps"
        rewrite_row "$row" "$seed" 4
        compared+=(--system "$row-$seed=$out/$row-$seed/summaries.txt")
    done
done
score_table "$out" "$rows" "$seeds"
etads-analyse --source "$data/text/test.source" --reference "$data/text/test.target" "${compared[@]}" --json "$out/analysis.json"
compare_rows "$rows" rewards labels "$data/text"
compare_rows "$rows" rerank rewards "$data/text"
