#!/usr/bin/env bash
# ConvS2S on CNN/Daily Mail, plain and with control words (Fan, Grangier, Auli 2017, "Controllable Abstractive Summarization").
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --keep-origin --out data/cnndm_bpe \
#       -- --tokens bpe --size 30000
#   scripts/reproduce/convs2s_cnndm.sh --data data/cnndm_bpe [options] [-- options of fairseq-train]
#
#   --data DIR       output folder of the first command
#   --out DIR        output folder (default: runs/convs2s_cnndm in the repository)
#   --rows LIST      rows of the table below to run (default: both)
#   --seeds LIST     random seeds for training (default: "1")
#   --cpu            do not use a GPU
#   --size N         number of BPE merges for text with control words (default: 30000)
#   --bins N         number of length bins (default: 10)
#   --lengths LIST   length bins to try on the validation set (default: all)
#   --origins LIST   newspapers to try on the validation set (default: "cnn dailymail")
#
#   ROW          system                                                           published R-1 / R-2 / R-L (from memory)
#   plain        no control words                                                 38.23 / 16.68 / 34.77
#   controlled   words for the reference's length and the newspaper; for the test set the pair of words with the best
#                ROUGE-L on the validation set, the same for all documents        39.75 / 17.29 / 36.54
#
# The second row is the system that later papers cite as "ConvS2S" on this corpus. The following settings are from
# memory and uncertain: 8 + 8 layers of width 512, word vectors of width 340, dropout of 0.2, 30,000 BPE merges, and
# documents of 400 words in addition to control words; Nesterov's accelerated gradient with a momentum of 0.99 and a
# learning rate of 0.2, which falls to a tenth after an epoch without a better validation loss; gradients clipped to a
# norm of 0.1.
#
# Deviations: there are no control words for entities, and no self-attention in the decoder. The output layer's width of
# 256, batches of 32, summaries of 100 tokens in training, a beam of 5 and the maximum of 120 tokens are our choices.
# Training ends below a learning rate of 1e-4. ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json, the scores of each pair of control words in
# DIR/controlled-SEED/settings/LENGTH-ORIGIN/rouge.json, and the chosen pair in DIR/controlled-SEED/setting.txt.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="plain controlled"
data="" out=$ROOT/runs/convs2s_cnndm rows=$all seeds="1" size=30000 bins=10 lengths="" origins="cnn dailymail"
read_options "--data --out --rows --seeds --size --bins --lengths --origins --cpu --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" size bins
[ -n "$lengths" ] || lengths=$(seq -s " " "$bins")
control=$out/control decoding=(--beam 5 --max-len 120 "${device[@]}")

# train RUN DATA WORDS SEED: train the model on the first WORDS words of each document.
train() {
    train_convolutional "$1" "$2" --arch convs2s_cnndm --batch-size 32 --lr 0.2 --stop-min-lr 1e-4 --truncate-source "$3" \
        --truncate-target 100 --seed "$4" "${device[@]}" "${more[@]}"
}

# fixed SPLIT LENGTH ORIGIN: prepare the documents of a split with these control words, and print the path of their folder.
fixed() {
    local folder=$control/$1-$2-$3
    if [ ! -f "$folder/prepared/bin/complete" ]; then
        etads-control "$data/text" "$folder/text" --like "$control/text" --subset "$1" --length "$2" --origin "$3" >&2
        etads-prepare "$folder/text" "$folder/prepared" --like "$control/prepared" >&2
    fi
    echo "$folder"
}

# best_setting RUN: print the setting LENGTH-ORIGIN with the best ROUGE-L on the validation set.
best_setting() {
    python - "$1/settings" <<'PYTHON'
import json, pathlib, sys
found = sorted(pathlib.Path(sys.argv[1]).glob("*/rouge.json"))
print(max(found, key=lambda path: json.loads(path.read_text())["scores"]["rougeL"]["f1"]).parent.name)
PYTHON
}

# try_settings RUN: score each pair of control words on the validation set, and write the best pair (or the first pair if there
# are no scores) to RUN/setting.txt.
try_settings() {
    local run=$1 length origin folder place best
    for length in $lengths; do
        for origin in $origins; do
            folder=$(fixed valid "$length" "$origin") place=$run/settings/$length-$origin
            mkdir -p "$place"
            summarise_once "$run" "$place/summaries.txt" --prepared "$folder/prepared" --subset valid "${decoding[@]}"
            once --makes "$place/rouge.json" --reads "$place/summaries.txt" "$data/text/valid.target" \
                -- etads-rouge "$place/summaries.txt" "$data/text/valid.target" --json "$place/rouge.json"
        done
    done
    best=$(best_setting "$run")
    echo "${best:-${lengths%% *}-${origins%% *}}" > "$run/setting.txt"
    say "control words: $(cat "$run/setting.txt")"
}

for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed
        if [ "$row" = plain ]; then
            train "$run" "$data" 400 "$seed"
            summarise_and_score "$run" "$data" "${decoding[@]}"
            continue
        fi
        if [ ! -f "$control/prepared/bin/complete" ]; then
            etads-control "$data/text" "$control/text" --length-bins "$bins" --by-origin
            etads-prepare "$control/text" "$control/prepared" --tokens bpe --words ptb --size "$size"
        fi
        train "$run" "$control" 402 "$seed"
        try_settings "$run"
        IFS=- read -r length origin < "$run/setting.txt"
        folder=$(fixed test "$length" "$origin")
        summarise_once "$run" "$run/summaries.txt" --prepared "$folder/prepared" "${decoding[@]}"
        score_once "$run" "$data/text"
    done
done
score_table "$out" "$rows" "$seeds"
