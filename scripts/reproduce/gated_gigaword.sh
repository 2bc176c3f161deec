#!/usr/bin/env bash
# The gated encoder-sharing Transformer's Tables 2 and 3: headlines of Gigaword (F1), and of DUC-2004 (recall at 75 bytes).
#
#   scripts/prepare_gigaword.sh --data DIR --out data/gigaword -- --separate-dictionaries --source-size 90000 --target-size 68883
#   scripts/prepare_duc.sh --data DIR --like data/gigaword/prepared --out data/duc2004
#   scripts/reproduce/gated_gigaword.sh --data data/gigaword [--duc data/duc2004] [options] [-- options of fairseq-train]
#
#   --data DIR     what scripts/prepare_gigaword.sh made
#   --duc DIR      what scripts/prepare_duc.sh made; without it only Gigaword is scored
#   --out DIR      default: runs/gated_gigaword in the repository
#   --rows LIST    of transformer es_transformer gated_es_transformer (default: all)
#   --seeds LIST   default: "1"
#   --epochs N     default: 10, as in the paper
#   --cpu          do not use a GPU
#
# As in the paper: 2+2 layers of width 256, FFN 1024, 4 heads, dropout 0.1, 90,000 and 68,883 words, an output layer
# with a bias (equation 6), batches of 64, Adam with rate 1e-3, halved when the validation loss does not fall; beam 5, unknown
# words replaced by the most attended ones.
# Deviations: gradient norm at most 2; headlines of at most 30 words; ROUGE is etads-rouge's, not
# pyrouge's. Not here: the row Seq2seq (gru_seq2seq; the paper does not give its sizes).
# Published: transformer 33.08/15.37/30.49, es_transformer 35.98/17.30/33.24, gated_es_transformer 36.15/17.51/33.47; DUC-2004
# 27.54/8.29/24.01, 29.02/9.81/25.12, 29.25/9.97/25.41.
# Can be interrupted and started again. Prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json and duc.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="transformer es_transformer gated_es_transformer"
data="" duc="" out=$ROOT/runs/gated_gigaword rows=$all seeds="1" epochs=10
read_options "--data --duc --out --rows --seeds --epochs --cpu --" "$@"
need_prepared --data "$data" scripts/prepare_gigaword.sh
[ -z "$duc" ] || need_prepared --duc "$duc" scripts/prepare_duc.sh
need_integer --epochs "$epochs"
need_choices --rows "$rows" "$all"
use_environment

decoding=(--beam 5 --max-len 30 ${device[@]+"${device[@]}"} -- --replace-unknown)
GENERATE=("${decoding[@]}")
for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed arch=$row options=()
        [ "$row" != transformer ] || arch=es_transformer options=(--no-share-encoder-decoder-layers)
        run_system "$run" "$data/text" "$data/prepared" train_prepared --arch "$arch" --truncate-source 100 \
            --truncate-target 50 ${device[@]+"${device[@]}"} -- --seed "$seed" --output-bias --batch-size 64 --max-epoch "$epochs" --lr 1e-3 \
            --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-patience 0 --warmup-updates 0 --adam-betas '(0.9, 0.999)' \
            ${options[@]+"${options[@]}"} ${more[@]+"${more[@]}"}
        if [ -n "$duc" ] && [ ! -f "$run/duc.json" ]; then
            supervise "$ROOT/scripts/generate.sh" --run "$run" --prepared "$duc/prepared" --output "$run/duc.txt" "${decoding[@]}"
            etads-rouge "$run/duc.txt" "$duc"/text/test.target* --duc75 --json "$run/duc.json"
        fi
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
