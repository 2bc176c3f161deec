#!/usr/bin/env bash
# RAS-LSTM and RAS-Elman (Chopra, Auli, Rush 2016): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).
#
#   scripts/prepare_gigaword.sh --data DIR --out data/gigaword_ras -- --separate-dictionaries --source-size 119505 \
#       --target-size 68885
#   scripts/prepare_duc.sh --data DIR --like data/gigaword_ras/prepared --out data/duc2004
#   scripts/reproduce/ras_gigaword.sh --data data/gigaword_ras [--duc data/duc2004] [options] [-- options of fairseq-train]
#
#   --data DIR     output folder of scripts/prepare_gigaword.sh, in which words with fewer than 5 occurrences are <unk>
#   --duc DIR      output folder of scripts/prepare_duc.sh; if it is not given, only Gigaword is scored
#   --out DIR      output folder (default: runs/ras_gigaword in the repository)
#   --rows LIST    rows of the table below to run (default: both)
#   --seeds LIST   random seeds for training (default: "1")
#   --cpu          do not use a GPU
#
#   ROW         the decoder          published R-1 / R-2 / R-L; DUC-2004
#   ras_lstm    an LSTM              32.55 / 14.70 / 30.03; 27.41 / 7.69 / 23.06 (from memory)
#   ras_elman   an Elman network     33.78 / 15.97 / 31.15; 28.97 / 8.26 / 24.06
#
# As in the paper (from memory), all widths are 512, and the model has one layer and a convolution over 5 words.
# Training uses gradient descent for 15 epochs with batches of 32 and a learning rate of 0.1 (LSTM) or 0.5 (Elman). The
# rate is halved after an epoch without a better validation loss. Decoding uses a beam of 10, replaces unknown words
# with the most attended source words, and writes at least 14 words for DUC.
#
# Our choices are initial weights uniform in [-0.05, 0.05], an initial state of 0, 200 positions, and gradients clipped
# to a norm of 2. Deviations: articles are truncated to 200 words and titles to 30. ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json
# and duc.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="ras_lstm ras_elman"
data="" duc="" out=$ROOT/runs/ras_gigaword rows=$all seeds="1"
read_options "--data --duc --out --rows --seeds --cpu --" "$@"
begin_gigaword "$all" 119505 68885

for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed rate=0.5
        [ "$row" = ras_elman ] || rate=0.1
        train_once "$run" "$data/prepared" --arch "$row" --optimizer sgd --lr "$rate" --lr-scheduler reduce_lr_on_plateau \
            --lr-shrink 0.5 --clip-norm 2 --batch-size 32 --required-batch-size-multiple 1 --sort-within 10 --max-epoch 15 \
            --validate-interval-updates -1 --truncate-source 200 --truncate-target 30 --seed "$seed" "${device[@]}" "${more[@]}"
        summarise_and_score "$run" "$data" --beam 10 --max-len 30 "${device[@]}" -- --replace-unknown
        if [ -n "$duc" ]; then
            summarise_and_score_duc "$run" "$duc" --beam 10 --min-len 14 --max-len 30 "${device[@]}" \
                -- --replace-unknown
        fi
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
