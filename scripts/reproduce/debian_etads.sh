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

for seed in $seeds; do
    for arch in $archs; do
        run=$out/$arch-$seed
        [ ! -f "$run/rouge.json" ] || continue
        train_small "$steps" --text "$out/text" --prepared "$out/prepared" --out "$run" --arch "$arch" --cpu -- --seed "$seed"
        supervise "$ROOT/scripts/generate.sh" --run "$run" --prepared "$out/prepared" --output "$run/summaries.txt" --max-len 30 --cpu
        etads-rouge "$run/summaries.txt" "$out/text/test.target" --json "$run/rouge.json"
    done
done

python - "$out" "$seeds" $archs <<'PYTHON'
import json, pathlib, sys
out, seeds, archs = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3:]
print("| system | seed | ROUGE-1 | ROUGE-2 | ROUGE-L |\n|---|---|---|---|---|")
for arch in archs:
    for seed in seeds:
        report = json.loads((out / f"{arch}-{seed}" / "rouge.json").read_text())
        cells = [f"{s['f1']:.2f} [{s['f1_interval'][0]:.2f}, {s['f1_interval'][1]:.2f}]" for s in report["scores"].values()]
        print(f"| `{arch}` | {seed} | {' | '.join(cells)} |")
print(report["signature"])
PYTHON
