#!/usr/bin/env bash
# ConvS2S (Gehring et al. 2017) on XSum, as Narayan, Cohen, Lapata 2018 trained it; and the same model with a pointer.
#
#   scripts/prepare_custom.sh --train train.jsonl --valid valid.jsonl --test test.jsonl --out data/xsum -- --tokens word --size 49996
#   scripts/reproduce/convs2s_xsum.sh --data data/xsum [options] [-- options of fairseq-train]
#
#   --data DIR     output folder of the first command, from files with a "document" and a "summary" per line; 50,000
#                  words, including the special symbols
#   --out DIR      output folder (default: runs/convs2s_xsum in the repository)
#   --rows LIST    rows of the table below to run (default: both)
#   --seeds LIST   random seeds for training (default: "1")
#   --cpu          do not use a GPU
#
#   ROW               system                                                         published R-1 / R-2 / R-L
#   convs2s           fairseq's fconv; unknown words replaced by the attended ones   31.27 / 11.07 / 25.23 (from memory)
#   convs2s-pointer   the same with --pointer soft                                   (not in the paper)
#
# As in the paper's code, the model has 20 + 20 layers of width 512 with kernels of 3, word vectors of width 512, an
# output layer of width 256 and dropout of 0.2. One dictionary contains 50,000 lower-case words; documents have 400
# words and summaries 90. Training uses batches of 32, Nesterov's accelerated gradient with a momentum of 0.99 and a
# learning rate of 0.1, gradients clipped to a norm of 0.1, and no label smoothing. The learning rate falls to a tenth
# after an epoch without a better validation loss, and training ends below 1e-5. Decoding uses a beam of 10.
#
# Deviations: the user provides XSum's text and splits. ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="convs2s convs2s-pointer"
data="" out=$ROOT/runs/convs2s_xsum rows=$all seeds="1"
read_options "--data --out --rows --seeds --cpu --" "$@"
begin_recipe scripts/prepare_custom.sh "$all"

say_vocabulary "$data/prepared" 49996 49996
for seed in $seeds; do
    for row in $rows; do
        pointer=none decoding=(-- --replace-unknown)
        [ "$row" = convs2s ] || pointer=soft decoding=()
        train_convolutional "$out/$row-$seed" "$data" --arch convs2s --pointer "$pointer" --dropout 0.2 --batch-size 32 --lr 0.1 \
            --stop-min-lr 1e-5 --truncate-source 400 --truncate-target 90 --seed "$seed" \
            "${device[@]}" "${more[@]}"
        summarise_and_score "$out/$row-$seed" "$data" --beam 10 --max-len 90 "${device[@]}" \
            "${decoding[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
