#!/usr/bin/env bash
# The gated encoder-sharing Transformer's Tables 2 and 3: headlines of Gigaword (F1), and of DUC-2004 (recall at 75 bytes).
#
#   scripts/prepare_gigaword.sh --data DIR --out data/gigaword -- --separate-dictionaries --source-size 90000 --target-size 68883
#   scripts/prepare_duc.sh --data DIR --like data/gigaword/prepared --out data/duc2004
#   scripts/reproduce/gated_gigaword.sh --data data/gigaword [--duc data/duc2004] [options] [-- options of fairseq-train]
#
#   --data DIR     output folder of scripts/prepare_gigaword.sh
#   --duc DIR      output folder of scripts/prepare_duc.sh; if it is not given, only Gigaword is scored
#   --out DIR      output folder (default: runs/gated_gigaword in the repository)
#   --rows LIST    rows of the table below to run (default: all)
#   --seeds LIST   random seeds for training (default: "1")
#   --epochs N     number of training epochs (default: 10, as in the paper)
#   --cpu          do not use a GPU
#
#   ROW                    in the tables       published R-1 / R-2 / R-L; DUC-2004
#   gru_seq2seq            Seq2seq             33.20 / 15.64 / 30.82; 27.88 / 8.41 / 24.04
#   transformer            Transformer         33.08 / 15.37 / 30.49; 27.54 / 8.29 / 24.01
#   es_transformer         ES-Trans.           35.98 / 17.30 / 33.24; 29.02 / 9.81 / 25.12
#   gated_es_transformer   Gated ES-Trans.     36.15 / 17.51 / 33.47; 29.25 / 9.97 / 25.41
#
# As in the paper, the model has 2+2 layers of width 256, an FFN width of 1024, 4 heads, dropout of 0.1, 90,000 and
# 68,883 words, and an output layer with a bias (equation 6). Training uses batches of 64 and Adam with a learning rate
# of 1e-3, which is halved when the validation loss does not fall. Decoding uses a beam of 5 and replaces unknown words
# with the most attended source words. The paper gives no sizes for gru_seq2seq; here, the encoder's bidirectional GRU,
# the attention and the decoder's GRU have width 256 each.
#
# Deviations: gradients are clipped to a norm of 2. Articles are truncated to 100 words and titles to 50; headlines have
# at most 30 words. ROUGE is computed by etads-rouge, not by pyrouge.
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json
# and duc.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="gru_seq2seq transformer es_transformer gated_es_transformer"
data="" duc="" out=$ROOT/runs/gated_gigaword rows=$all seeds="1" epochs=10
read_options "--data --duc --out --rows --seeds --epochs --cpu --" "$@"
begin_gigaword "$all" 90000 68883 epochs

for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed arch=$row options=(--output-bias)
        case $row in
            gru_seq2seq) options=(--encoder-embed-dim 256 --encoder-hidden-size 256 --attention-dim 256 --dropout 0.1) ;;
            transformer) arch=es_transformer options+=(--no-share-encoder-decoder-layers) ;;
        esac
        train_once "$run" "$data/prepared" --arch "$arch" --optimizer adam --lr 1e-3 --lr-scheduler reduce_lr_on_plateau \
            --lr-shrink 0.5 --lr-patience 0 --clip-norm 2 --batch-size 64 --required-batch-size-multiple 1 \
            --max-epoch "$epochs" --validate-interval-updates -1 --truncate-source 100 --truncate-target 50 --seed "$seed" \
            "${options[@]}" \
            "${device[@]}" "${more[@]}"
        decoding=(--beam 5 --max-len 30 "${device[@]}" -- --replace-unknown)
        summarise_and_score "$run" "$data" "${decoding[@]}"
        [ -z "$duc" ] || summarise_and_score_duc "$run" "$duc" "${decoding[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
