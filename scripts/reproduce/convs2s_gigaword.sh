#!/usr/bin/env bash
# ConvS2S (Gehring et al. 2017), section 5.4: headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes); and with a pointer.
#
#   scripts/prepare_gigaword.sh --data DIR --out data/gigaword30k -- --size 29996
#   scripts/prepare_duc.sh --data DIR --like data/gigaword30k/prepared --out data/duc2004
#   scripts/reproduce/convs2s_gigaword.sh --data data/gigaword30k [--duc data/duc2004] [options] [-- options of fairseq-train]
#
#   --data DIR     output folder of scripts/prepare_gigaword.sh; 30,000 words, including the special symbols
#   --duc DIR      output folder of scripts/prepare_duc.sh; if it is not given, only Gigaword is scored
#   --out DIR      output folder (default: runs/convs2s_gigaword in the repository)
#   --rows LIST    rows of the table below to run (default: both)
#   --seeds LIST   random seeds for training (default: "1")
#   --cpu          do not use a GPU
#
#   ROW               system                        published R-1 / R-2 / R-L; DUC-2004 (both from memory)
#   convs2s           fairseq's fconv               35.88 / 17.48 / 33.29; 30.44 / 10.84 / 26.90
#   convs2s-pointer   the same with --pointer soft  (not in the paper)
#
# As in the paper (from memory), the model has 6 + 6 layers of width 256 with kernels of 3, word vectors and an output
# layer of width 256, dropout of 0.1 and 30,000 words. Training uses batches of 64, Nesterov's accelerated gradient with
# a momentum of 0.99 and a learning rate of 0.25, and gradients clipped to a norm of 0.1. The learning rate falls to a
# tenth after an epoch without a better validation loss, and training ends below 1e-4. Decoding uses a beam of 5, and at
# least 14 words for DUC.
#
# Deviations: articles are truncated to 200 words and titles to 30. Unknown words are replaced with the most attended
# word (convs2s), or copied (convs2s-pointer). ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json
# and duc.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="convs2s convs2s-pointer"
data="" duc="" out=$ROOT/runs/convs2s_gigaword rows=$all seeds="1"
read_options "--data --duc --out --rows --seeds --cpu --" "$@"
begin_gigaword "$all" 29996 29996

for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed pointer=none decoding=(-- --replace-unknown)
        [ "$row" = convs2s ] || pointer=soft decoding=()
        train_convolutional "$run" "$data" --arch convs2s_gigaword --pointer "$pointer" --batch-size 64 --lr 0.25 \
            --stop-min-lr 1e-4 --truncate-source 200 --truncate-target 30 --seed "$seed" \
            "${device[@]}" "${more[@]}"
        summarise_and_score "$run" "$data" --beam 5 --max-len 30 "${device[@]}" "${decoding[@]}"
        if [ -n "$duc" ]; then
            summarise_and_score_duc "$run" "$duc" --beam 5 --min-len 14 --max-len 30 \
                "${device[@]}" "${decoding[@]}"
        fi
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
