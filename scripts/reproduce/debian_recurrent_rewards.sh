#!/usr/bin/env bash
# Measure the gains and costs of a closed-book decoder and of rewards: pg_coverage on Debian synopses, and models that continue its training.
#
#   scripts/reproduce/debian_recurrent_rewards.sh [--out DIR] [--steps N] [--rl-steps N] [--seeds "1 2"] [--rows "base rl"]
#
#   --out DIR      output folder (default: runs/debian_recurrent_rewards in the repository)
#   --text DIR     output folder of etads-debian (default: the sample corpus)
#   --steps N      number of training steps of base and closed-book (default: 1500, 6 minutes on one core for base)
#   --rl-steps N   number of updates in the rows that continue from base (default: 480, two epochs; an update with
#                  rewards takes 1 to 2 seconds on one core)
#   --size N       vocabulary size (default: 8000)
#   --seeds LIST   random seeds for training (default: "1")
#   --rows LIST    rows of the table below to run (default: all). If a row continues another one, that row is trained
#                  first
#
#   ROW                training
#   base               by likelihood: pg_coverage as in debian_headlines.sh
#   closed-book        the same steps with an additional closed-book decoder (Jiang and Bansal 2018), weight 2/3
#   longer             base, then N updates by likelihood, to compare with the next two
#   rl                 base, then N self-critical updates with ROUGE-L
#   rougesal-entail    base, then N self-critical updates alternating between ROUGESal and entailment (Pasunuru and Bansal 2018)
#
# Adam has a learning rate of 1e-3 in the first two rows, and of 1e-4 in the others. Saliency is idf, and the entailment
# model (DIR/nli) is trained on synthetic pairs created from the reference summaries. The entailment reward increases
# with the length of a summary, up to the length of the reference. The last checkpoint is decoded with a beam of 5 and 3
# to 30 words.
#
# The recipe can be interrupted and started again. It prints Markdown tables, statistics of copied and repeated words,
# and paired tests of each row minus base, and of rl and rougesal-entail minus longer. The tests use ROUGE, the other
# two rewards and the likelihood of the references.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="base closed-book longer rl rougesal-entail"
out=$ROOT/runs/debian_recurrent_rewards steps=1500 rl_steps=480 seeds="1" size=8000 systems=$all
read_comparison --rows "$@"
prepared=$out/prepared

by_rewards=(--criterion summarization_rl --rl-max-len 30)

# go_on ROW SEED [options of fairseq-train]: continue training from the row base.
go_on() {
    local row=$1 seed=$2
    shift 2
    train_row base "$seed"
    train_small_recurrent "$rl_steps" "$out/$row-$seed" "$prepared" pg_coverage --seed "$seed" --lr 1e-4 --coverage-loss-start 0 \
        --init-from "$out/base-$seed/checkpoints/checkpoint_last.pt" "$@"
}

# train_row ROW SEED: train a row. If it starts from the row base, train base first.
train_row() {
    local row=$1 seed=$2
    case $row in
        base) train_small_recurrent "$steps" "$out/$row-$seed" "$prepared" pg_coverage --seed "$seed" ;;
        closed-book)
            train_small_recurrent "$steps" "$out/$row-$seed" "$prepared" pg_coverage --seed "$seed" \
                --closed-book-decoder --closed-book-weight 0.667 ;;
        longer) go_on "$row" "$seed" ;;
        rl) go_on "$row" "$seed" "${by_rewards[@]}" --rewards rougeL ;;
        rougesal-entail) go_on "$row" "$seed" "${by_rewards[@]}" --rewards rougesal,entail --entail-model "$out/nli/model" ;;
    esac
}

supervise etads-prepare "$text" "$prepared" --tokens word --size "$size" --source-sentence-marks
train_nli "$text" "$out/nli" --words moses --embed-dim 100 --width 100 --epochs 5  # the same model scores all rows
also=(--also rougesal entail --saliency-documents "$text/train.source" --entail-model "$out/nli/model")
compared=()
for seed in $seeds; do
    for row in $systems; do
        run=$out/$row-$seed
        train_row "$row" "$seed"
        summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" --min-len 3 --max-len 30 --cpu \
            --checkpoint "$run/checkpoints/checkpoint_last.pt"
        score_once "$run" "$text" "${also[@]}"
        compared+=(--system "$row-$seed=$run/summaries.txt")
    done
done
score_table "$out" "$systems" "$seeds"
etads-analyse --source "$text/test.source" --reference "$text/test.target" "${compared[@]}" --json "$out/analysis.json"
for pair in closed-book/base longer/base rl/base rougesal-entail/base rl/longer rougesal-entail/longer; do
    compare_rows "$systems" "${pair%/*}" "${pair#*/}" "$text" "${also[@]}"
    compare_row_likelihoods "$systems" "${pair%/*}" "${pair#*/}" --checkpoint last
done
