#!/usr/bin/env bash
# Jiang and Bansal 2018 on CNN/Daily Mail: training with a closed-book decoder next to See et al.'s, and self-critical training.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm50k -- --size 49996
#   scripts/reproduce/closedbook_cnndm.sh --data data/cnndm50k [options] [-- options of fairseq-train]
#
#   --data DIR            output folder of the first command; 50,000 words, including the four special symbols
#   --out DIR             output folder (default: runs/closedbook_cnndm in the repository)
#   --rows LIST           rows of the table below to run (default: all)
#   --seeds LIST          random seeds for training (default: "1")
#   --cpu                 do not use a GPU
#   --gamma G             weight of the closed-book decoder's likelihood (default: 0.667)
#   --rl-steps N          number of training steps with rewards (default: 20000)
#   --stages LIST, --stage-steps N, --steps N, --coverage-steps N   as for see2017_cnndm.sh, which trains the
#                         preceding stages
#
#   ROW              trained by                                                    published F1, R-1 / R-2 / R-L
#   cbdec            likelihood, with the closed-book decoder                      38.21 / 16.45 / 34.70
#   cbdec-coverage   the same, then coverage                                       40.05 / 17.66 / 36.73
#   cbdec-rl         the same, then rewards                                        40.66 / 17.87 / 37.06
#   rl               likelihood, coverage and rewards, without the decoder         39.59 / 17.18 / 36.16
#
# The scores of the first two rows and of the last row, the weight of 2/3 and the decoder to which it applies are from
# memory. As in the paper, the closed-book decoder has its own network and output layer, shares the word vectors, starts
# from the bridge's output, and is not used for decoding. The reward is ROUGE-L of a sampled summary compared with the
# greedy summary; its loss is mixed with the likelihood at a weight of 0.998. Reward training uses Adam with a learning
# rate of 1e-4, gradients clipped to a norm of 2 and batches of 16, and selects the checkpoint with the best validation
# ROUGE-L. The likelihood stages, decoding and deviations are as in see2017_cnndm.sh.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="cbdec cbdec-coverage cbdec-rl rl"
data="" out=$ROOT/runs/closedbook_cnndm rows=$all seeds="1" gamma=0.667 rl_steps=20000
stages="" stage_steps="" steps="" coverage_steps=""
read_options "--data --out --rows --seeds --cpu --gamma --rl-steps --stages --stage-steps --steps --coverage-steps --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" rl_steps
closed_book=(--closed-book-decoder --closed-book-weight "$gamma")

mkdir -p "$out"
for seed in $seeds; do
    for row in $rows; do
        case $row in
            cbdec)
                train_see2017 "$out/closed-book" pointer_generator "$seed" "${closed_book[@]}"
                ln -sfn "closed-book/pointer_generator-$seed" "$out/cbdec-$seed" ;;
            cbdec-coverage)
                train_see2017 "$out/closed-book" pointer_generator_coverage "$seed" "${closed_book[@]}"
                ln -sfn "closed-book/pointer_generator_coverage-$seed" "$out/cbdec-coverage-$seed" ;;
            cbdec-rl)
                train_see2017 "$out/closed-book" pointer_generator_coverage "$seed" "${closed_book[@]}"
                train_with_rewards "$out/$row-$seed" "$out/closed-book/pointer_generator_coverage-$seed" "$seed" \
                    rougeL "${closed_book[@]}" ;;
            rl)
                train_see2017 "$out/plain" pointer_generator_coverage "$seed"
                train_with_rewards "$out/$row-$seed" "$out/plain/pointer_generator_coverage-$seed" "$seed" rougeL ;;
        esac
    done
done
score_table "$out" "$rows" "$seeds"
