#!/usr/bin/env bash
# The Aggregation Transformer and the (gated) encoder-sharing Transformer beside the plain one, on the Debian sample
# corpus, small, with several seeds each.
#
#   scripts/reproduce/debian_memory.sh [--out DIR] [--steps N] [--seeds "1 2"] [--archs "etads_basic es_transformer"]
#
#   --out DIR    default: runs/debian_memory in the repository
#   --text DIR   what etads-debian made (default: the sample corpus)
#   --steps N    training steps of each model (default: 1000, about 5 minutes on 2 cores)
#   --seeds LIST, --archs LIST   default: "1 2", and all four
#
# All have 3+3 layers of width 128, a soft pointer over 1,000 known words, sinusoidal positions and the same dropouts, and
# differ only in the mechanisms that the architectures are named after. Decoding is the quickstart's (beam 5, no bigram
# twice, at least 4 words). Deviations from the papers: corpus, sizes, steps, optimiser (ETADS's instead of a rate that is
# halved), and for the encoder-sharing ones a dictionary for both sides and a pointer instead of --replace-unk.
# Can be interrupted and started again. Prints a Markdown table; the scores are in DIR/ARCH-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_memory steps=1000 seeds="1 2"
systems="etads_basic aggregation_transformer es_transformer gated_es_transformer"
read_comparison --archs "$@"

GENERATE=(--min-len 4 --max-len 30 --no-repeat-ngram-size 2 --cpu)
for seed in $seeds; do
    for arch in $systems; do
        run_system "$out/$arch-$seed" "$text" "$out/prepared" train_small "$steps" --text "$text" --cpu --arch "$arch" \
            --tokens word --size 1000 --pointer soft -- --seed "$seed" "${SINUSOIDAL[@]}" --encoder-layers 3 --decoder-layers 3 \
            --dropout 0.25 --attention-dropout 0 --activation-dropout 0
    done
done
score_table "$out" "$systems" "$seeds"
