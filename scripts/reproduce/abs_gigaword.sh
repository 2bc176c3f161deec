#!/usr/bin/env bash
# ABS and ABS+ (Rush, Chopra, Weston 2015): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).
#
#   scripts/prepare_gigaword.sh --data DIR --filter --out data/gigaword_abs -- --size 119505 --target-size 68885
#   scripts/prepare_duc.sh --data DIR --like data/gigaword_abs/prepared --out data/duc2004
#   scripts/reproduce/abs_gigaword.sh --data data/gigaword_abs [--duc data/duc2004] [--tune data/duc2003] [options]
#       [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_gigaword.sh, with one dictionary, so that words of documents and
#                   summaries can be compared
#   --duc DIR       output folder of scripts/prepare_duc.sh; if it is not given, only Gigaword is scored
#   --tune DIR      output folder of scripts/prepare_duc.sh for DUC-2003; abs-plus then uses the paper's features, with
#                   weights tuned on DUC-2003 (default: the features and weights of the authors' release)
#   --tune-beam N   beam size used for tuning (default: 500)
#   --out DIR       output folder (default: runs/abs_gigaword in the repository)
#   --rows LIST     rows of the table below to run (default: both)
#   --seeds LIST    random seeds for training (default: "1")
#   --cpu           do not use a GPU
#
#   ROW        system                                         published R-1 / R-2 / R-L; DUC-2004
#   abs        the attention-based model                      29.55 / 11.32 / 26.42; 26.55 / 7.06 / 22.05
#   abs-plus   the same with extractive features in search    29.76 / 11.88 / 26.96; 28.18 / 8.49 / 23.81
#
# The published scores are F1 from later papers' tables, because the Gigaword table in the 2015 paper reports recall.
# These settings are from the paper or its release: windows of 5 words, word vectors of width 200, 400 hidden units
# (from memory), and word vectors scaled to a norm of at most 1 before each epoch; gradient descent for 20 epochs with
# batches of 64 and a learning rate of 0.1, which is halved after an epoch without a better validation loss; words with
# fewer than 5 occurrences replaced with <unk>, and filtered pairs; a beam of 100 with recombination of hypotheses that
# share their last 5 words, no repeated words, no <unk>, and 14 words for DUC. The score of abs-plus includes the
# release's features, for which its weights were tuned, and the log-probability of the end symbol. --tune uses 500
# hypotheses and 20 starting points.
#
# Deviations: a batch contains 64 pairs; Gigaword summaries have 8 words (our choice: about the length of a title);
# articles are truncated to 100 words and titles to 50; the features never find <unk> in the article; --tune maximises
# ROUGE-1 recall at 75 bytes with the first reference, whereas the release maximises BLEU; ROUGE is computed by
# etads-rouge.
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json
# and duc.json, and tuned weights in DIR/tuning-SEED/mert.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="abs abs-plus"
data="" duc="" tune="" tune_beam=500 out=$ROOT/runs/abs_gigaword rows=$all seeds="1"
read_options "--data --duc --tune --tune-beam --out --rows --seeds --cpu --" "$@"
[ -z "$tune" ] || need_prepared --tune "$tune" scripts/prepare_duc.sh
begin_gigaword "$all" 119505 68885 tune_beam

for seed in $seeds; do
    model=$out/abs-$seed
    train_once "$model" "$data/prepared" --arch abs --optimizer sgd --lr 0.1 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 \
        --batch-size 64 --required-batch-size-multiple 1 --max-epoch 20 --validate-interval-updates -1 \
        --truncate-source 100 --truncate-target 50 --seed "$seed" "${device[@]}" "${more[@]}"
    for row in $rows; do
        run=$out/$row-$seed
        decoding=(--beam 100 "${device[@]}" -- --no-repeat-ngram-size 1 --recombine 5 --unkpen 1000000)
        if [ "$row" = abs-plus ]; then
            weights=release
            [ -z "$tune" ] || weights=$(tuned_weights "$model" "$out/tuning-$seed" "$data/prepared" 14 "$tune/text/test" --nbest "$tune_beam")
            decoding+=(--extractive-weights "$weights")
            share_training "$run" "$model"
        fi
        summarise_and_score "$run" "$data" "${decoding[@]}" --exact-length 8
        if [ -n "$duc" ]; then
            summarise_and_score_duc "$run" "$duc" "${decoding[@]}" --exact-length 14
        fi
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
