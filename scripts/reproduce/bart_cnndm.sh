#!/usr/bin/env bash
# Fine-tune BART, and BART with ETADS's mechanisms, on CNN/Daily Mail as in fairseq's README.summarization.md.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm-gpt2 -- \
#       --tokens gpt2 --gpt2-encoder-json gpt2_bpe/encoder.json --gpt2-vocab-bpe gpt2_bpe/vocab.bpe \
#       --dictionary bart.large/dict.txt
#   scripts/reproduce/bart_cnndm.sh --data data/cnndm-gpt2 --bart bart.large [options] [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_cnndm.sh with GPT-2's pieces
#   --bart DIR      folder containing BART's model.pt and dict.txt, from bart.large.tar.gz or bart.base.tar.gz
#                   (docs/bart.md)
#   --arch NAME     architecture: etads_bart_large (default) or etads_bart_base
#   --out DIR       output folder (default: runs/bart_cnndm in the repository)
#   --rows LIST     rows of the table below to run (default: all)
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps (default: 20000, as in fairseq)
#   --cpu           do not use a GPU
#
#   ROW             model                                                                  published R-1 / R-2 / R-L
#   bart            BART without a mechanism                                               F1 44.16 / 21.28 / 40.90 (large)
#   etads           with focus-attention and saliency-selection, which begin as BART       none
#   etads-pointer   with a pointer as well, which begins by generating (0.99)              none
#
# As in fairseq's README, documents are truncated to 1,023 pieces, and summaries are not truncated. Training uses Adam
# (0.9, 0.999) with a learning rate of 3e-5, which falls to 0 in 20,000 steps after 500 steps of warm-up, batches of
# 2,048 tokens and 4 batches per step, label smoothing of 0.1, dropout of 0.1 (also for attention weights), weight decay
# of 0.01, and gradients clipped to a norm of 0.1. Decoding uses a beam of 4, blocks repeated trigrams, and writes 55 to
# 140 pieces with a length penalty of 2.
#
# Deviations: fairseq used 8 GPUs, so its steps have 8 times as much data; on one GPU, give -- --update-freq 32 --fp16.
# The text comes from scripts/prepare_cnndm.sh, which adds missing full stops to the lines of a story. As in fairseq's
# fine-tuning, summaries begin without <s>; fairseq's own script for summarisation puts <s> before document and summary.
# ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="bart etads etads-pointer"
data="" bart="" arch=etads_bart_large out=$ROOT/runs/bart_cnndm rows=$all seeds="1" steps=20000
read_options "--data --bart --arch --out --rows --seeds --steps --cpu --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" steps
[ -n "$bart" ] || die "--bart is missing; see --help"
for file in model.pt dict.txt; do [ -f "$bart/$file" ] || die "--bart $bart: no $file in it; see --help"; done
need_choice --arch "$arch" etads_bart_large etads_bart_base

# options_of ROW: print the options of fairseq-train for a row, one word per line.
options_of() {
    case $1 in
        bart) printf '%s\n' --focus-layers none --saliency-layers none ;;
        etads) printf '%s\n' --pointer none ;;
        etads-pointer) printf '%s\n' --pointer soft --pointer-initial-generate 0.99 ;;
    esac
}

GENERATE=(--beam 4 --min-len 55 --max-len 140 --lenpen 2 --no-repeat-ngram-size 3 "${device[@]}")
for seed in $seeds; do
    for row in $rows; do
        mapfile -t options < <(options_of "$row")
        run_system "$out/$row-$seed" "$data/text" "$data/prepared" train_prepared --arch "$arch" --truncate-source 1023 \
            --truncate-target 1023 --max-tokens 2048 --max-update "$steps" "${device[@]}" -- --seed "$seed" \
            --init-from "$bart/model.pt" --adam-betas '(0.9, 0.999)' --lr 3e-5 --weight-decay 0.01 --lr-scheduler polynomial_decay \
            --total-num-update "$steps" --warmup-updates $(((steps + 39) / 40)) --clip-norm 0.1 --update-freq 4 \
            --required-batch-size-multiple 1 --label-smoothing 0.1 --dropout 0.1 --attention-dropout 0.1 "${options[@]}" \
            "${more[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
