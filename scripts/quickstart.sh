#!/usr/bin/env bash
# Install the project, prepare a real corpus, train a small ETADS model with a pointer, summarise, and compute scores,
# in 7 minutes on 2 cores.
#
#   scripts/quickstart.sh [options]
#
#   --out DIR        output folder for the data, the model and the summaries (default: runs/quickstart in the
#                    repository)
#   --arch NAME      architecture: etads (default), etads_basic, etads_focus or etads_saliency
#   --pointer KIND   mechanism for copying document words: soft (default), switch or none
#   --tokens KIND    type of tokens: word (default), bpe or sentencepiece
#   --size N         vocabulary size in words, BPE merges or SentencePiece pieces (default: 1000 words, 5000 otherwise)
#   --steps N        number of training steps (default: 900, 5 minutes on 2 cores)
#   --minutes N      stop training after N minutes, even if it is not finished (default: no limit)
#   --venv DIR, --python PYTHON   as for scripts/install.sh
#   --no-install     use the active environment instead of installing the project
#   --gpu            use a GPU (default: the CPU; a GPU hardly speeds up such a small model)
#
# The corpus is the sample included in the project: 13,000 Debian package descriptions and their synopses. You can
# interrupt the script with Ctrl-C; when it is run again, it skips finished steps and continues.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/runs/quickstart arch=etads pointer=soft tokens=word size="" steps=900 minutes="" install=yes device=(--cpu) environment=()
while [ $# -gt 0 ]; do
    case $1 in
        --out) need_value "$@"; out=$2; shift 2 ;;
        --arch) need_value "$@"; arch=$2; shift 2 ;;
        --pointer) need_value "$@"; pointer=$2; shift 2 ;;
        --tokens) need_value "$@"; tokens=$2; shift 2 ;;
        --size) need_value "$@"; size=$2; shift 2 ;;
        --steps) need_value "$@"; steps=$2; shift 2 ;;
        --minutes) need_value "$@"; minutes=$2; shift 2 ;;
        --venv) need_value "$@"; VENV=$2; environment+=(--venv "$2"); shift 2 ;;
        --python) need_value "$@"; environment+=(--python "$2"); shift 2 ;;
        --no-install) install=no; shift ;;
        --gpu) device=(); environment+=(--gpu); shift ;;
        -h | --help) usage ;;
        *) die "unknown option $1; see --help" ;;
    esac
done
need_choice --pointer "$pointer" none soft switch
need_choice --tokens "$tokens" bpe sentencepiece word
# With 12,000 pairs, a model learns only a few words well, so copying the other words helps.
[ -n "$size" ] || { [ "$tokens" = word ] && size=1000 || size=5000; }
need_integer --size "$size"
need_integer --steps "$steps"
[ -z "$minutes" ] || need_integer --minutes "$minutes"
need_folder --out "$out"
[ ${#device[@]} -eq 0 ] || hide_gpus
installed=$(command -v etads-export || true)  # before the scripts change PATH
if [ "$install" = yes ]; then
    supervise "$ROOT/scripts/install.sh" "${environment[@]}"
    export PATH="$VENV/bin:$PATH"
fi
use_environment
started=$SECONDS

say "a summary by the bundled model (etads-summarize debian)"
example="fairseq-etads is a plugin for fairseq which trains neural models that write abstractive summaries of documents. It contains \
the ETADS Transformer with focus-attention, pointers that copy words of the document, and tools for data preparation and ROUGE."
printf 'document   %s\n' "$example"
printf 'summary    %s\n\n' "$(etads-summarize debian --quiet <<< "$example")"

say "unpacking the sample corpus"
supervise etads-debian --sample --out "$out/text"

train() {
    supervise etads-train --recipe small --prepared "$out/prepared" --arch "$arch" --pointer "$pointer" \
        "${device[@]}" "$@"
}
summarise() {
    summarise_once "$out" "$3" --checkpoint "$1/checkpoints/checkpoint_$2.pt" "${device[@]}"
}

limit=()
[ -z "$minutes" ] || limit=(--stop-time-hours "$(python -c "print($minutes / 60)")")
export USUAL_MINUTES=$((2 + steps / 300))  # on two otherwise idle cores
train --max-update "$steps" --out "$out" --text "$out/text" --tokens "$tokens" --size "$size" -- "${limit[@]}"
summarise "$out" best "$out/summaries.txt"

# The same model, untrained except for one tiny step, is a baseline for the scores.
train --max-update 1 --no-content --out "$out/untrained" -- --lr 1e-12 --warmup-updates 0 --disable-validation
summarise "$out/untrained" last "$out/untrained.txt"

supervise "$ROOT/scripts/evaluate.sh" --summaries "$out/summaries.txt" --summaries "$out/untrained.txt" \
    --references "$out/text/test.target" --documents "$out/text/test.source" --lead 8 --show 3 > "$out/scores.txt"
cat "$out/scores.txt"
if [ -n "$minutes" ] && tail -n 40 "$out/train.log" | grep -q "Stopping training due to cumulative_training_time"; then
    say "WARNING: --minutes $minutes ended training before its $steps steps, so these scores are too low; run it again without --minutes"
fi
say "done in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s without the installation; all results are in $out"
[ -n "$installed" ] || bin=$VENV/bin/
say "next, export a model folder and summarise with it: ${bin:-}etads-export $out model && ${bin:-}etads-summarize model article.txt"
say_processor_time
