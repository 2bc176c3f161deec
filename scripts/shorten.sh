#!/usr/bin/env bash
# Train an extractor, and shorten long documents to their most probable sentences.
#
#   scripts/shorten.sh --text DIR --out DIR [options] [-- options of fairseq-train for the extractor]
#
#   --text DIR          folder written by etads-corpus, containing {train,valid,test}.{source,target} with one document
#                       or summary per line
#   --out DIR           output folder for text/ (the shortened documents and their summaries) and extractor/ (the run
#                       folder of the extractor)
#   --words N           maximum number of words in a shortened document (default: 200)
#   --size N            vocabulary size of the extractor (default: 20000)
#   --text-words KIND   word tokenisation for the extractor, as in etads-prepare --words (default: ptb)
#   --jobs N            number of processes for data preparation (default: 1 for each core)
#   --cpu               do not use a GPU
#
# A summariser can then read the shortened documents, with the probability level of each sentence as a factor:
#
#   etads-prepare DIR/text DIR/prepared --factors salience …
#   fairseq-train DIR/prepared/bin --source-factors salience …
#   etads-export RUN FOLDER --extractor DIR/extractor
#
# The exported model then accepts whole documents of any length. Two extractors are trained on one half of the training
# documents each, and each training document is shortened by the extractor that was trained on the other half
# (docs/long.md). Training takes two epochs, but at least 120 steps. To continue after an interruption, run the script
# again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

text="" out="" words=200 size=20000 text_words=ptb jobs=""
read_options "--text --out --words --size --text-words --jobs --cpu --" "$@"
[ -n "$text" ] || die "--text is missing; see --help"
[ -n "$out" ] || die "--out is missing; see --help"
for split in train valid; do
    [ -f "$text/$split.source" ] || die "--text $text: no $split.source in it; etads-corpus makes it"
done
need_integer --words "$words"
need_integer --size "$size"
[ -z "$jobs" ] || need_integer --jobs "$jobs"
use_environment
need_folder --out "$out"
run=$out/extractor whole=(--truncate-source 100000)

supervise etads-prepare "$text" "$run/prepared" --tokens word --size "$size" --words "$text_words" --source-sentence-marks \
    ${jobs:+--jobs "$jobs"}
splits=()
for split in train valid test; do [ ! -f "$text/$split.source" ] || splits+=("$split"); done
once --makes "${splits[@]/#/$run/prepared/bin/labels.sentences.}" --reads "$run/prepared/tokens" "$run/prepared/bin" \
    -- etads-labels "$run/prepared" --kind f1 "${whole[@]}" ${jobs:+--jobs "$jobs"}
documents=$(wc -l < "$text/train.source")
epoch=$(((documents + 63) / 64))
[ "$epoch" -gt 0 ] || epoch=1  # wc does not count a line without a line feed
steps=$((epoch * 2))
[ "$steps" -ge 120 ] || steps=120
every=$(((steps / epoch + 9) / 10))  # training on a small text takes many epochs, and the model is validated after about ten of them
train_once "$run" "$run/prepared" --criterion selection_nll --arch pooled_extractor "${whole[@]}" \
    --truncate-target 1 --optimizer adam --adam-betas '(0.9, 0.98)' --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 50 \
    --total-num-update "$steps" --max-update "$steps" --clip-norm 2 --batch-size 64 --required-batch-size-multiple 1 \
    --num-workers 0 --validate-interval "$every" --save-interval "$every" --best-checkpoint-metric auc \
    --maximize-best-checkpoint-metric "${device[@]}" "${more[@]}"
probabilities=("${splits[@]/#/$run/probabilities.sentences.}")
once --makes "$run/report.json" "${probabilities[@]}" --reads "$run/checkpoints/checkpoint_best.pt" "$run/prepared/bin" \
    -- etads-select "$run" --subset "${splits[@]}" --report "$run/report.json" --max-tokens 32000
sources=("${splits[@]/#/$out/text/}")
once --makes "${sources[@]/%/.source}" "${sources[@]/%/.source.salience}" "$run/picking.json" \
    --reads "$text" "${probabilities[@]}" "$run/prepared/prepare.json" \
    -- etads-shorten "$text" "$out/text" --run "$run" --words "$words"
