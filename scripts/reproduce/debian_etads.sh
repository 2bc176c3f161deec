#!/usr/bin/env bash
# The four ETADS systems (Table 2 of the paper) on the sample corpus, small, with several seeds each.
#
#   scripts/reproduce/debian_etads.sh [--out DIR] [--steps N] [--seeds "1 2"] [--archs "etads etads_basic"]
#
#   --out DIR    default: runs/debian_etads in the repository
#   --steps N    training steps of each model (default: 1000, 4 minutes on 2 cores)
#   --seeds LIST, --archs LIST   default: "1 2", and all four
#
# Deviations from the paper: another corpus, a model of 2+2 layers and width 128, BPE, 1,000 steps, beam 5, no coverage
# penalty. It says whether the mechanisms train and roughly what they do, not what they reach on CNN/Daily Mail.
# Can be interrupted and started again. Prints a Markdown table; the scores are in DIR/ARCH-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

out=$ROOT/runs/debian_etads steps=1000 seeds="1 2" archs="etads_basic etads_focus etads_saliency etads"
while [ $# -gt 0 ]; do
    case $1 in
        --out) need_value "$@"; out=$2; shift 2 ;;
        --steps) need_value "$@"; steps=$2; shift 2 ;;
        --seeds) need_value "$@"; seeds=$2; shift 2 ;;
        --archs) need_value "$@"; archs=$2; shift 2 ;;
        -h | --help) usage ;;
        *) die "unknown option $1; see --help" ;;
    esac
done
need_integer --steps "$steps"
use_environment
etads-debian --sample --out "$out/text"

GENERATE=(--max-len 30 --cpu)
for seed in $seeds; do
    for arch in $archs; do
        run_system "$out/$arch-$seed" "$out/text" "$out/prepared" train_small "$steps" --text "$out/text" --cpu --arch "$arch" -- --seed "$seed"
    done
done

score_table "$out" "$archs" "$seeds"
