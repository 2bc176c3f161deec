#!/usr/bin/env bash
# Train the model that comes with the project ("etads-summarize debian"): a small ETADS with a pointer, on the descriptions
# of all of Debian's packages.
#
#   apt-get update -o Acquire::Languages=en      (as root, on Debian: fetches the descriptions)
#   scripts/bundled_model.sh [options] [-- options of fairseq-train]
#
#   --out DIR     default: runs/debian in the repository; DIR/model is the model folder
#   --text DIR    what etads-debian made (default: made here, of all packages that APT lists)
#   --size N      words that can be generated; all others are copied (default: 4000)
#   --steps N     default: 6000, 75 minutes on one core
#   --seed N      default: 1
#
# 2+2 layers of width 192, case kept, --pointer-continue and a narrow, relative focus as in the quickstart; beam 5, no word pair
# twice. Scores of the test split are in DIR/rouge.json. Can be interrupted and started again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/runs/debian text="" size=4000 steps=6000 seed=1
read_options "--out --text --size --steps --seed --" "$@"
for name in size steps seed; do need_integer "--$name" "${!name}"; done
need_folder --out "$out"
use_environment
[ -n "$text" ] || { text=$out/text; supervise etads-debian --out "$text"; }

GENERATE=(--beam 5 --min-len 3 --max-len 30 --no-repeat-ngram-size 2 --cpu)
run_system "$out" "$text" "$out/prepared" train_small "$steps" --text "$text" --cpu --arch etads --tokens word --size "$size" \
    --keep-case --pointer soft --truncate-source 150 -- "${SINUSOIDAL[@]}" --seed "$seed" --encoder-embed-dim 192 \
    --decoder-embed-dim 192 --encoder-ffn-embed-dim 768 --decoder-ffn-embed-dim 768 --dropout 0.15 --pointer-continue \
    --focus-center relative --focus-initial-scope 2,2,2,half ${more[@]+"${more[@]}"}
[ ! -d "$out/model" ] || exit 0
etads-export "$out" "$out/model" --dtype fp16 --title debian --language en --beam 5 --min-len 3 --max-len 30 \
    --no-repeat-ngram-size 2
[ -f "$out/model/README.md" ] || exit 0  # nothing was exported, because commands were only checked
cat >> "$out/model/README.md" << 'CARD'

## Origin

The texts are the descriptions and synopses of the packages in Debian 12 (bookworm), section main, written by the packages'
maintainers; all of these packages follow the Debian Free Software Guidelines, each under a licence of its own. The split keeps
packages that share texts together. `scripts/bundled_model.sh` of fairseq-etads makes this model. It has learnt to write
synopses of software packages, and nothing else.
CARD
