#!/usr/bin/env bash
# Nallapati et al. 2016, Tables 1 and 2, one row per run: headlines of Gigaword (F1, copy rate) and of DUC (recall).
#
#   scripts/reproduce/nallapati_gigaword.sh --row ROW --data DIR [--duc DIR] [options] [-- options of fairseq-train]
#
#   --row ROW        row of the table below to run
#   --data DIR       output folder of scripts/prepare_gigaword.sh --data RAW --out DIR, with the options in the table;
#                    RAW is the text of NAMAS before rare words are replaced. SEPARATE stands for
#                    -- --separate-dictionaries --source-size 119505 --target-size 68885
#   --duc DIR        output folder of scripts/prepare_duc.sh --like DIR/prepared (rows 1sent); if it is not given, only
#                    Gigaword is scored
#   --vectors FILE   initial word2vec vectors with 200 dimensions, in text format (default: random vectors)
#   --out DIR        output folder (default: runs/nallapati_gigaword in the repository)
#   --seed N         random seed for training (default: 1)
#   --cpu            do not use a GPU
#
#   ROW                         architecture          prepare_gigaword.sh ...              published R-1 / R-2 / R-L, copied
#   words-lvt2k-1sent           words_lvt2k           SEPARATE                             34.97 / 17.17 / 32.70, 75.85 %
#   words-lvt5k-1sent           words_lvt5k           --rare 0 -- --separate-dictionaries --source-size 400000 \
#                                                         --target-size 200000             36.4 / 17.7 / 33.71 (see below)
#   words-lvt2k-2sent           words_lvt2k           SEPARATE                             35.73 / 17.38 / 33.25, 79.54 %
#   words-lvt2k-2sent-hieratt   words_lvt2k_hieratt   --sentences SEPARATE --source-sentence-marks
#                                                                                          36.05 / 18.17 / 33.52, 78.52 %
#   feats-lvt2k-2sent           feats_lvt2k           SEPARATE --factors pos ner tf idf    35.90 / 17.57 / 33.38, 78.92 %
#   feats-lvt2k-2sent-ptr       feats_lvt2k_ptr       --rare 0 -- --size 119505 --target-size 68885 \
#                                                         --factors pos ner tf idf         36.40 / 17.77 / 33.71, 78.70 %
#
# For the rows 2sent, RAW contains articles of two sentences, which --sentences separates for hierarchical attention. By
# default, words with fewer than 5 occurrences become <unk> in the text, as in NAMAS, which leaves 119,505 words of
# articles and 68,885 words of titles. --rare 0 keeps rare words for larger vocabularies and for the pointer, because
# <unk> cannot be copied. Ready-made text contains <unk> and cannot be used for these rows.
#
# The scores of words-lvt5k-1sent are unreliable: our copy of the paper's table is garbled there, and they repeat
# another row's scores. From memory, the paper has 35.30 / 16.64 / 32.62.
#
# DUC-2004, recall at 75 bytes: words-lvt2k-1sent 28.35 / 9.46 / 24.59, words-lvt5k-1sent 28.61 / 9.42 / 25.24.
#
# As in the paper, the model has width 400 and word vectors of width 200. Training uses batches of 50, sorted by length
# within every ten batches, Adadelta, gradient clipping, no dropout and at most 15 epochs, and selects the checkpoint
# with the best validation loss. Decoding uses a beam of 5 and at most 30 words; for DUC, exactly 30. The row with a
# pointer may write <unk>, because it is trained to write <unk> for words that cannot be copied (docs/experiments.md).
#
# Deviations: the paper's learning rate of 0.001 is ignored (docs/recurrent.md explains why). Gradients are clipped to a
# norm of 1. Training does not stop early, and the model is validated every 10,000 updates and after each epoch. The row
# with a pointer has one dictionary, in which the words of titles take the place of the rarest words of articles. The
# input vector of a word and its factors has the paper's width of 155 only with --encoder-embed-dim 100. ROUGE is
# computed by etads-rouge. The splits come from the data, not from the paper's random 2,000 pairs.
#
# The recipe can be interrupted and started again. It prints Markdown tables.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

row="" data="" duc="" vectors="" out=$ROOT/runs/nallapati_gigaword seed=1
read_options "--row --data --duc --vectors --out --seed --cpu --" "$@"
need_choice --row "$row" words-lvt2k-1sent words-lvt5k-1sent words-lvt2k-2sent words-lvt2k-2sent-hieratt \
    feats-lvt2k-2sent feats-lvt2k-2sent-ptr
need_prepared --data "$data" scripts/prepare_gigaword.sh
[ -z "$duc" ] || need_prepared --duc "$duc" scripts/prepare_duc.sh
need_integer --seed "$seed"
use_environment
begin=()
[ -z "$vectors" ] || begin=(--encoder-embed-path "$vectors" --decoder-embed-path "$vectors")

arch=${row//-?sent/} run=$out/$row-$seed decoding=()
case $row in
    words-lvt5k-1sent) say_vocabulary "$data/prepared" 400000 200000 ;;
    *) say_vocabulary "$data/prepared" 119505 68885 ;;
esac
# The model has learned to generate <unk> for words that cannot be copied, so <unk> must be allowed.
[ "$row" != feats-lvt2k-2sent-ptr ] || decoding=(--allow-unk)
train_recurrent "$run" "$data/prepared" --arch "${arch//-/_}" "${ADADELTA[@]}" --truncate-source 200 --truncate-target 30 \
    --max-epoch 15 --validate-interval-updates 10000 --seed "$seed" "${begin[@]}" "${device[@]}" "${more[@]}"
search=(--beam 5 "${device[@]}" "${decoding[@]}")
summarise_once "$run" "$run/summaries.txt" --prepared "$data/prepared" --max-len 30 "${search[@]}"
etads-analyse --source "$data/text/test.source" --reference "$data/text/test.target" --system "$row=$run/summaries.txt" \
    --json "$run/analysis.json"
[ -z "$duc" ] || summarise_and_score_duc "$run" "$duc" "${search[@]}" --exact-length 30
