#!/usr/bin/env bash
# Measure the effect of sentence selection on long documents: an extractor, and See et al.'s model with a built-in one, in two forms.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed -- --size 8000 --source-sentence-marks
#   scripts/reproduce/sumpubmed_sentences.sh --data data/sumpubmed [options] [-- options of fairseq-train for the summarisers]
#
#   --data DIR         output folder of scripts/prepare_sumpubmed.sh, with sentence marks
#   --out DIR          output folder (default: runs/sumpubmed_sentences in the repository)
#   --rows LIST        rows of the table below to run (default: all). If a row continues another one, that row is
#                      trained first
#   --steps N          number of training steps of summarisers (default: 2600, two epochs); training with coverage takes
#                      5/16 of them
#   --extractor-steps N  number of training steps of the extractor (default: 820, one epoch)
#   --seeds LIST       random seeds for training (default: "1")
#   --cpu              do not use a GPU
#
#   ROW                 source of the summary
#   extractor           the sentence extractor's three most probable sentences
#   plain               See et al.'s model without coverage (pointer_generator)
#   explicit            the same model with Explicit-Selection: a gate, and sentences selected for each sentence of the summary
#   coverage            plain, trained further with coverage
#   unified             plain, trained further with coverage, the extractor's probabilities in its attention and the inconsistency loss
#
# All four summarisers have GRUs of width 128, word vectors of width 100 and See et al.'s wiring, so that explicit
# differs from plain, and unified from coverage, only in the selection of sentences. They are trained with Adam, a
# learning rate of 1e-3 and batches of 20; the extractor has GRUs of width 100. Documents are truncated to 200 words and
# summaries to 100. Decoding uses a beam of 5 and 35 to 100 words, and blocks repeated trigrams.
#
# The recipe can be interrupted and started again. It prints Markdown tables, statistics of copied and repeated words,
# and paired tests of explicit minus plain and of unified minus coverage, by ROUGE and by the likelihood of the
# references. The extractor's AUC and F1 are in DIR/extractor-SEED/report.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="extractor plain explicit coverage unified"
data="" out=$ROOT/runs/sumpubmed_sentences rows=$all steps=2600 extractor_steps=820 seeds="1"
read_options "--data --out --rows --steps --extractor-steps --seeds --cpu --" "$@"
begin_recipe scripts/prepare_sumpubmed.sh "$all" steps extractor_steps
prepared=$data/prepared read=(--truncate-source 200)
coverage_steps=$((steps > 3 ? steps * 5 / 16 : 1))

# labels KIND: create sentence labels in OUT/labels-KIND. They depend only on the documents, so all seeds share them.
labels() {
    label_once "$out/labels-$1" "$1" "train valid test" "${read[@]}"
}

# train_extractor SEED
train_extractor() {
    labels extract
    train_selector "$out/extractor-$1" "$prepared" "$out/labels-extract" --arch sentence_extractor "${read[@]}" --num-workers 0 \
        --encoder-embed-dim 100 --encoder-hidden-size 100 --max-update "$extractor_steps" --best-checkpoint-metric auc \
        --maximize-best-checkpoint-metric --seed "$1"
}

# train_summariser ROW SEED ARCH [options of fairseq-train]
train_summariser() {
    local row=$1 seed=$2 arch=$3
    shift 3
    train_once "$out/$row-$seed" "$prepared" --arch "$arch" --rnn-cell gru --bridge tanh --no-paper-init --encoder-embed-dim 100 \
        --encoder-hidden-size 128 --attention-dim 128 --readout-dim 128 "${read[@]}" --truncate-target 100 --num-workers 0 \
        --batch-size 20 --required-batch-size-multiple 1 --sort-within 10 --optimizer lazy_adam --lr 1e-3 --clip-norm 2 \
        --seed "$seed" "${device[@]}" "$@" "${more[@]}"
}

# train_row ROW SEED: train a row after training the rows that it starts from.
train_row() {
    local seed=$2 onwards=(--init-from "$out/plain-$2/checkpoints/checkpoint_best.pt" --coverage-loss 1 --max-update "$coverage_steps")
    case $1 in
        extractor) train_extractor "$seed" ;;
        plain) train_summariser plain "$seed" pointer_generator --max-update "$steps" ;;
        explicit)
            labels distribution
            train_summariser explicit "$seed" explicit_selection --labels "$out/labels-distribution" --selection-loss 0.2 \
                --max-update "$steps" ;;
        coverage)
            train_row plain "$seed"
            train_summariser coverage "$seed" pointer_generator_coverage "${onwards[@]}" ;;
        unified)
            train_row plain "$seed"
            train_extractor "$seed"
            train_summariser unified "$seed" unified_summarizer "${onwards[@]}" --labels "$out/labels-extract" --extraction-loss 5 \
                --inconsistency-loss 1 --extractor "$out/extractor-$seed/checkpoints/checkpoint_best.pt" \
                --extractor-embed-dim 100 --extractor-hidden-size 100 ;;
    esac
}

# write_summaries ROW RUN: write RUN/summaries.txt.
write_summaries() {
    if [ "$1" = extractor ]; then
        once --makes "$2/summaries.txt" --reads "$prepared" "$2"/probabilities.*.test \
            -- etads-extract "$prepared" "$2/summaries.txt" "${read[@]}" --by selector --selection "$2"
    else
        summarise_once "$2" "$2/summaries.txt" --prepared "$prepared" --beam 5 --min-len 35 --max-len 100 \
            --no-repeat-ngram-size 3 "${device[@]}"
    fi
}

compared=()
for seed in $seeds; do
    for row in $rows; do
        train_row "$row" "$seed"
        write_summaries "$row" "$out/$row-$seed"
        score_once "$out/$row-$seed" "$data/text"
        compared+=(--system "$row-$seed=$out/$row-$seed/summaries.txt")
    done
done
score_table "$out" "$rows" "$seeds"
etads-analyse --source "$data/text/test.source" --reference "$data/text/test.target" "${compared[@]}" --json "$out/analysis.json"
for pair in "explicit plain" "unified coverage"; do
    # shellcheck disable=SC2086  # must be split into two words
    { compare_rows "$rows" $pair "$data/text"; compare_row_likelihoods "$rows" $pair; }
done
