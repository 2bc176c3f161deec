#!/usr/bin/env bash
# The four ETADS systems (Table 2 of the paper) on the sample corpus, small, with several seeds each.
#
#   scripts/reproduce/debian_etads.sh [--out DIR] [--steps N] [--seeds "1 2"] [--archs "etads etads_basic"]
#
#   --out DIR    default: runs/debian_etads in the repository
#   --text DIR   what etads-debian made (default: the sample corpus)
#   --steps N    training steps of each model (default: 1000, 4 minutes on 2 cores)
#   --seeds LIST, --archs LIST   default: "1 2", and all four
#
# Deviations from the paper: another corpus, a model of 2+2 layers and width 128, BPE, 1,000 steps, beam 5, no coverage
# penalty. It says whether the mechanisms train and roughly what they do, not what they reach on CNN/Daily Mail.
# Can be interrupted and started again. Prints a Markdown table; the scores are in DIR/ARCH-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_etads steps=1000 seeds="1 2" systems="etads_basic etads_focus etads_saliency etads"
read_comparison --archs "$@"

GENERATE=(--max-len 30 --cpu)
for seed in $seeds; do
    for arch in $systems; do
        run_system "$out/$arch-$seed" "$text" "$out/prepared" train_small "$steps" --text "$text" --cpu --arch "$arch" -- --seed "$seed"
    done
done

score_table "$out" "$systems" "$seeds"
