#!/usr/bin/env bash
# Compare the quickstart's etads with the recurrent pg_coverage at equal training time: ROUGE on Debian synopses, three seeds.
#
#   scripts/reproduce/debian_equal_time.sh [--out DIR] [--steps N] [--seeds "1 2 3"] [--archs "etads pg_coverage"]
#
#   --out DIR      output folder (default: runs/debian_equal_time in the repository)
#   --text DIR     output folder of etads-debian (default: the sample corpus)
#   --steps N      number of training steps of pg_coverage (default: 1500, 6 minutes on one core); etads is trained for
#                  7/12 of them
#   --size N       vocabulary size of pg_coverage (default: 8000); the vocabulary of etads is an eighth of this size
#   --seeds LIST   random seeds for training (default: "1 2 3")
#   --archs LIST   architectures to train (default: both)
#
# A training step of etads uses batches of 4,000 tokens instead of 50 pairs, and --optimizer muon. It takes 1.6 times as
# long as a step of pg_coverage on one thread, and 1.2 times as long on two threads; without bfloat16 instructions, it
# takes about a tenth longer. pg_coverage is trained and decoded as in debian_headlines.sh, and etads as in
# quickstart.sh.
#
# The recipe can be interrupted and started again. It prints Markdown tables, and paired tests of the difference over
# documents and seeds.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_equal_time steps=1500 seeds="1 2 3" size=8000 systems="etads pg_coverage"
read_comparison --archs "$@"

supervise etads-prepare "$text" "$out/recurrent/prepared" --tokens word --size "$size" --source-sentence-marks --factors tf idf
GENERATE=(--min-len 4 --max-len 30 --beam 5 --cpu -- --no-repeat-ngram-size 2)
compared=() etads=() pg_coverage=()
for seed in $seeds; do
    for arch in $systems; do
        run=$out/$arch-$seed
        if [ "$arch" = etads ]; then
            run_system "$run" "$text" "$out/prepared" train_small $((steps > 1 ? steps * 7 / 12 : 1)) --text "$text" --cpu --arch etads \
                --tokens word --size $((size / 8)) --pointer soft -- --seed "$seed" "${SINUSOIDAL[@]}" --pointer-continue \
                --focus-center relative --focus-initial-scope 2,2,2,half --optimizer muon --label-smoothing 0 --dropout 0.15
            etads+=("$run/summaries.txt")
        else
            train_small_recurrent "$steps" "$run" "$out/recurrent/prepared" "$arch" --seed "$seed"
            # The last checkpoint is used, because the checkpoint with the best likelihood may predate the coverage loss.
            summarise_once "$run" "$run/summaries.txt" --prepared "$out/recurrent/prepared" --min-len 3 --max-len 30 --cpu \
                --checkpoint "$run/checkpoints/checkpoint_last.pt"
            pg_coverage+=("$run/summaries.txt")
        fi
        compared+=(--system "$arch-$seed=$run/summaries.txt")
    done
done
etads-analyse --source "$text/test.source" --reference "$text/test.target" "${compared[@]}" --json "$out/analysis.json"
[ ${#etads[@]} -gt 0 ] && [ ${#pg_coverage[@]} -gt 0 ] || exit 0
compare_once "$out/compare" "$text/test.target" --a "${etads[@]}" --b "${pg_coverage[@]}"
