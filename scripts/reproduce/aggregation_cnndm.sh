#!/usr/bin/env bash
# The Aggregation Transformer's Tables 3 (depths) and 4 (m1 to m7) on CNN/Daily Mail.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm
#   scripts/reproduce/aggregation_cnndm.sh --data data/cnndm [--rows "m1 m6"] [options] [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_cnndm.sh; with BPE instead of words, also give --pointer none
#   --out DIR       output folder (default: runs/aggregation_cnndm in the repository)
#   --rows LIST     rows to run, out of e4d4 e4d3 e4d2 e2d4 e3d4 (numbers of encoder and decoder layers, Table 3) and m1
#                   m2 m3 m4 m5 m6 m7 (Table 4: none, add 1, add 2, proj 1, proj 2, attn 1, attn 2) (default: all; e4d4
#                   is m1)
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps (default: 200000, as in the paper)
#   --pointer KIND  mechanism for copying document words: soft (default) or none
#   --cpu           do not use a GPU
#
# Published F1: m1 (e4d4) 40.05/17.72/36.77, m2 39.79/17.52/36.32, m3 39.69/17.34/36.15, m4 40.58/17.77/36.60, m5
# 40.67/17.84/36.70, m6 41.06/18.02/38.04, m7 40.03/17.59/36.60; e4d3 39.75/17.63/36.50, e4d2 39.54/17.47/36.51, e2d4
# 39.57/17.30/35.98, e3d4 39.80/17.54/36.43.
#
# As in the paper, documents have 500 words, and one dictionary contains 50,000 words. Training uses Adam (0.9, 0.999)
# with a learning rate of 1e-4, which is halved when the validation loss has not fallen for two epochs, and all dropout
# rates are 0.1. Decoding uses a beam of 10, blocks repeated trigrams, and writes 50 to 120 words with a length penalty
# of 2.
#
# Deviations: the paper does not give the width and the batch size. Here, the width is 512, with an FFN width of 2048
# and 8 heads, and a batch contains 4,096 tokens, so the paper's 200,000 steps may correspond to a different number of
# our steps. In training, summaries are truncated to 120 words, and gradients are clipped to a norm of 2. ROUGE is
# computed by etads-rouge, not by pyrouge. docs/systems.md lists the rows that the paper's Table 1 takes from other
# papers. Two of these rows (words-1vt2k-temp-att, ConvS2S) do not report the systems that they name; etads_cnndm.sh
# --help identifies them.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

rows="m1 m2 m3 m4 m5 m6 m7 e4d3 e4d2 e2d4 e3d4"
data="" out=$ROOT/runs/aggregation_cnndm seeds="1" steps=200000 pointer=soft
read_options "--data --out --rows --seeds --steps --pointer --cpu --" "$@"
begin_recipe scripts/prepare_cnndm.sh "m1 m2 m3 m4 m5 m6 m7 e4d4 e4d3 e4d2 e2d4 e3d4" steps
need_choice --pointer "$pointer" soft none

# options_of ROW: print the options of fairseq-train for a row, one word per line.
options_of() {
    case $1 in
        e?d?) printf '%s\n' --aggregation none --encoder-layers "${1:1:1}" --decoder-layers "${1:3:1}" ;;
        m1) printf '%s\n' --aggregation none ;;
        m2) printf '%s\n' --aggregation add --aggregation-layers 1 ;;
        m3) printf '%s\n' --aggregation add --aggregation-layers 2 ;;
        m4) printf '%s\n' --aggregation proj --aggregation-layers 1 ;;
        m5) printf '%s\n' --aggregation proj --aggregation-layers 2 ;;
        m6) printf '%s\n' --aggregation attn --aggregation-layers 1 ;;
        m7) printf '%s\n' --aggregation attn --aggregation-layers 2 ;;
    esac
}

GENERATE=(--beam 10 --no-repeat-ngram-size 3 --lenpen 2 --min-len 50 --max-len 120 "${device[@]}")
for seed in $seeds; do
    for row in $rows; do
        mapfile -t options < <(options_of "$row")
        run_system "$out/$row-$seed" "$data/text" "$data/prepared" train_prepared --arch aggregation_transformer \
            --pointer "$pointer" --truncate-source 500 --truncate-target 120 --max-update "$steps" "${device[@]}" \
            -- --seed "$seed" --adam-betas '(0.9, 0.999)' --lr 1e-4 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 \
            --lr-patience 1 --warmup-updates 0 "${options[@]}" "${more[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
