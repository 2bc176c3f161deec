#!/usr/bin/env bash
# Measure the effect of content selection on long documents: extraction by a word tagger, and ETADS with and without Bottom-Up's mask.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed -- --size 8000 --source-sentence-marks
#   scripts/reproduce/sumpubmed_selection.sh --data data/sumpubmed [options] [-- options of fairseq-train for the summariser]
#
#   --data DIR      output folder of scripts/prepare_sumpubmed.sh, with sentence marks
#   --out DIR       output folder (default: runs/sumpubmed_selection in the repository)
#   --rows LIST     rows of the table below to run (default: all)
#   --steps N       number of training steps of the summariser (default: 2600, two epochs); the tagger is trained for
#                   5/8 of them
#   --seeds LIST    random seeds for training (default: "1")
#   --cpu           do not use a GPU
#
#   ROW             source of the summary
#   lead            the first three sentences
#   oracle          all sentences that raise the recall of the known reference: the labels of extractors
#   tagger          the three sentences with the tagger's most probable words
#   summariser      etads with a soft pointer
#   bottom-up       the same model, copying only words that the tagger has chosen
#
# The summariser has 2+2 layers of width 128 and the settings of scripts/quickstart.sh, except for --pointer-continue.
# Documents are truncated to 200 words, also for extraction, and summaries to 100. Decoding uses a beam of 5 and 35 to
# 100 words, and blocks repeated trigrams. --threshold and --factor set Bottom-Up's threshold and factor.
# sumpubmed_sentences.sh selects sentences instead of words.
#
# The recipe can be interrupted and started again. It prints Markdown tables, statistics of copied and repeated words,
# and paired tests of bottom-up minus summariser. The tagger's AUC and F1 are in DIR/tagger-SEED/report.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="lead oracle tagger summariser bottom-up"
data="" out=$ROOT/runs/sumpubmed_selection rows=$all steps=2600 seeds="1" threshold=0.15 factor=2
read_options "--data --out --rows --steps --seeds --threshold --factor --cpu --" "$@"
begin_recipe scripts/prepare_sumpubmed.sh "$all" steps
prepared=$data/prepared
tagger_steps=$((steps > 1 ? steps * 5 / 8 : 1))

# train_tagger RUN SEED: train the tagger in RUN, and write its probabilities for validation and test documents.
train_tagger() {
    label_once "$out/labels-words" words "train valid test" --truncate-source 200
    train_selector "$1" "$prepared" "$out/labels-words" --arch word_tagger --truncate-source 200 --num-workers 0 \
        --max-update "$tagger_steps" --best-checkpoint-metric auc --maximize-best-checkpoint-metric --seed "$2"
}

# train_summariser RUN SEED
train_summariser() {
    train_small "$steps" --prepared "$prepared" --out "$1" --arch etads --pointer soft --truncate-source 200 \
        --truncate-target 100 "${device[@]}" -- --seed "$2" "${SINUSOIDAL[@]}" --focus-center relative \
        --focus-initial-scope 2,2,2,half "${more[@]}"
}

# extract RUN [options of etads-extract]: write RUN/summaries.txt, unless it exists and was created from the same data
# and probabilities.
extract() {
    local run=$1
    shift
    mkdir -p "$run"
    once --makes "$run/summaries.txt" --reads "$prepared" "$run"/probabilities.*.test \
        -- etads-extract "$prepared" "$run/summaries.txt" --truncate-source 200 "$@"
}

# summarise RUN [options of etads-summarize]
summarise() {
    local run=$1
    shift
    summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" --beam 5 --min-len 35 --max-len 100 \
        "${device[@]}" -- --no-repeat-ngram-size 3 "$@"
}

for seed in $seeds; do
    summariser=$out/summariser-$seed tagger=$out/tagger-$seed
    for row in $rows; do
        run=$out/$row-$seed
        case $row in
            lead | oracle) extract "$run" --by "$row" ;;
            tagger)
                train_tagger "$run" "$seed"
                extract "$run" --by tagger --selection "$run" ;;
            summariser)
                train_summariser "$run" "$seed"
                summarise "$run" ;;
            bottom-up)
                train_summariser "$summariser" "$seed"
                train_tagger "$tagger" "$seed"
                share_training "$run" "$summariser"
                summarise "$run" --selection "$tagger" --selection-threshold "$threshold" --selection-factor "$factor" ;;
        esac
        score_once "$run" "$data/text"
    done
done
score_table "$out" "$rows" "$seeds"
compared=() alone=() masked=()
for seed in $seeds; do
    alone+=("$out/summariser-$seed/summaries.txt") masked+=("$out/bottom-up-$seed/summaries.txt")
    for row in $rows; do compared+=(--system "$row-$seed=$out/$row-$seed/summaries.txt"); done
done
etads-analyse --source "$data/text/test.source" --reference "$data/text/test.target" "${compared[@]}" --json "$out/analysis.json"
both_chosen "$rows" bottom-up summariser || exit 0
compare_once "$out/compare" "$data/text/test.target" --a "${masked[@]}" --b "${alone[@]}"
