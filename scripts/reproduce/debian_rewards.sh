#!/usr/bin/env bash
# Measure the gains and costs of training with rewards: etads on Debian synopses, before and after 1,000 self-critical updates.
#
#   scripts/reproduce/debian_rewards.sh [--out DIR] [--steps N] [--seeds "1 2"] [--rows "likelihood longer rewards"]
#
#   --out DIR      output folder (default: runs/debian_rewards in the repository)
#   --text DIR     output folder of etads-debian (default: the sample corpus)
#   --steps N      number of updates after likelihood training (default: 1000, which take 25 minutes on one core with
#                  rewards)
#   --size N       vocabulary size (default: 1000)
#   --seeds LIST   random seeds for training (default: "1 2")
#   --rows LIST    rows of the table below to run (default: all)
#
#   ROW            training
#   likelihood     15/16 of N steps by likelihood: etads as in debian_equal_time.sh, but with Adam and dropout 0.1
#   longer         the same model after N more steps by likelihood
#   rewards        the same model after N self-critical updates with ROUGE-L: --criterion summarization_rl
#
# The rows longer and rewards begin with the same parameters and the same learning rate. The checkpoint with the best
# validation loss is decoded, except in the row rewards, which uses the last checkpoint, because the validation loss
# does not measure rewards. Decoding uses a beam of 5 and 4 to 30 words, and blocks repeated bigrams.
#
# The recipe can be interrupted and started again. It prints Markdown tables, statistics of copied and repeated words,
# and paired tests of rewards against each of the other rows, by ROUGE and by the likelihood of the references, because
# models exploit rewards.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="likelihood longer rewards"
out=$ROOT/runs/debian_rewards steps=1000 seeds="1 2" size=1000 systems=$all
read_comparison --rows "$@"

# train RUN SEED STEPS [options of fairseq-train]
train() {
    local run=$1 seed=$2 steps=$3
    shift 3
    train_small "$steps" --out "$run" --text "$text" --prepared "$out/prepared" --cpu --arch etads --tokens word --size "$size" \
        --pointer soft -- --seed "$seed" "${SINUSOIDAL[@]}" --pointer-continue --focus-center relative \
        --focus-initial-scope 2,2,2,half --label-smoothing 0 --dropout 0.1 "$@"
}

for seed in $seeds; do
    first=$out/likelihood-$seed
    further=(--finetune-from-model "$first/checkpoints/checkpoint_best.pt" --lr 1e-4 --warmup-updates 50)
    train "$first" "$seed" $((steps > 1 ? steps * 15 / 16 : 1))
    for row in $systems; do
        run=$out/$row-$seed checkpoint=best
        case $row in
            longer) train "$run" "$seed" "$steps" "${further[@]}" ;;
            rewards)
                checkpoint=last
                train "$run" "$seed" "$steps" "${further[@]}" --criterion summarization_rl --rewards rougeL --rl-max-len 30 ;;
        esac
        summarise_once "$run" "$run/summaries.txt" --prepared "$out/prepared" --checkpoint "$run/checkpoints/checkpoint_$checkpoint.pt" \
            --min-len 4 --max-len 30 --beam 5 --cpu -- --no-repeat-ngram-size 2
        score_once "$run" "$text"
    done
done
score_table "$out" "$systems" "$seeds"
compared=()
for seed in $seeds; do
    for row in $systems; do compared+=(--system "$row-$seed=$out/$row-$seed/summaries.txt"); done
done
etads-analyse --source "$text/test.source" --reference "$text/test.target" "${compared[@]}" --json "$out/analysis.json"
case $systems in *rewards*) ;; *) exit 0 ;; esac
for row in $systems; do
    [ "$row" != rewards ] || continue
    rewards=() others=()
    for seed in $seeds; do rewards+=("$out/rewards-$seed") others+=("$out/$row-$seed"); done
    compare_once "$out/compare-$row" "$text/test.target" --a "${rewards[@]/%//summaries.txt}" --b "${others[@]/%//summaries.txt}"
    compare_once "$out/likelihood-$row" --likelihood --a "${rewards[@]}" --b "${others[@]}" --checkpoint last
done
