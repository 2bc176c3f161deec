#!/usr/bin/env bash
# Prepare parallel text and train a model on it. Run it again to go on after an interruption.
#
#   scripts/train.sh --text DIR --out DIR [options] [-- options of fairseq-train]
#
#   --text DIR          holds {train,valid,test}.{source,target}, a document or summary a line
#   --out DIR           gets checkpoints/ and prepared/ (tokens, dictionary, binarised data)
#   --prepared DIR      the place of the prepared data (default: in --out), so that models can share them; without --text
#                       they must be there already (scripts/prepare_*.sh make them, for example)
#   --arch NAME         architecture (default: etads); etads-models lists them
#   --pointer KIND      none, soft or switch: copy words of the document, unknown ones too (default: the architecture's)
#   --tokens KIND       bpe (default), sentencepiece or word
#   --size N            BPE merges, SentencePiece pieces or words kept (default: 8000)
#   --keep-case         do not lower-case
#   --truncate-source N, --truncate-target N   tokens kept of documents and summaries (default: 400, 100, as in ETADS)
#   --max-tokens N      source tokens in a batch (default: 4096)
#   --max-update N      steps (default: 200000)
#   --processes N       train with N processes, each with batches of its own (default: one for each GPU, or one)
#   --cpu               do not use a GPU
#
# The optimiser is the ETADS paper's: Adam (0.9, 0.998), 8,000 warm-up steps to the rate 4.94e-4 (which is Noam's peak at
# width 512) and then inverse square root, gradient norm at most 2, label smoothing off. A training of fewer than 80,000
# steps warms up for a tenth of them. Whatever stands after -- overrides it, for example:
#
#   scripts/train.sh --text data/cnndm --out runs/etads -- --update-freq 4 --seed 2       (on a GPU also --fp16)
#
# While it trains, it shows steps and time left, validations and fairseq's warnings; DIR/train.log has everything. Curves:
# etads-plot DIR (pip install matplotlib); in a browser: ... -- --tensorboard-logdir DIR/curves;  tensorboard --logdir
# DIR/curves (pip install tensorboard), or -- --wandb-project NAME (pip install wandb). Summaries at each validation:
# ... -- --validation-samples 3
#
# Validated and saved every 1,000 steps and at the end of every epoch (-- --validate-interval-updates N: every N steps); the last
# and the best checkpoint are kept. Ctrl-C saves the step that is reached, and the same command continues from there; if the
# machine stops, at most ten minutes are lost (-- --save-interval-minutes N).

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

text="" out="" prepared="" arch=etads tokens="" size="" max_tokens=4096 max_update=200000 pointer=""
prepare=() task=() more=()
while [ $# -gt 0 ]; do
    case $1 in
        --text) need_value "$@"; text=$2; shift 2 ;;
        --out) need_value "$@"; out=$2; shift 2 ;;
        --prepared) need_value "$@"; prepared=$2; shift 2 ;;
        --arch) need_value "$@"; arch=$2; shift 2 ;;
        --pointer) need_value "$@"; pointer=$2; shift 2 ;;
        --tokens) need_value "$@"; tokens=$2; shift 2 ;;
        --size) need_value "$@"; size=$2; shift 2 ;;
        --keep-case) prepare+=(--keep-case); shift ;;
        --truncate-source | --truncate-target) need_value "$@"; need_integer "$1" "$2"; task+=("$1" "$2"); shift 2 ;;
        --max-tokens) need_value "$@"; max_tokens=$2; shift 2 ;;
        --max-update) need_value "$@"; max_update=$2; shift 2 ;;
        --processes) need_value "$@"; need_integer "$1" "$2"; more+=(--distributed-world-size "$2"); shift 2 ;;
        --cpu) more+=(--cpu); shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of fairseq-train come after --)" ;;
    esac
done
[ -n "$text" ] || [ -n "$prepared" ] || die "--text is missing; see --help"
[ -n "$out" ] || die "--out is missing; see --help"
if [ -z "$text" ]; then
    given="${tokens:+--tokens $tokens }${size:+--size $size }${prepare[*]-}"
    [ -z "$given" ] || die "${given%% --*}: goes with --text; without it, --prepared $prepared is taken as it is"
fi
tokens=${tokens:-bpe} size=${size:-8000}
need_choice --tokens "$tokens" bpe sentencepiece word
[ -z "$pointer" ] || need_choice --pointer "$pointer" none soft switch
need_integer --size "$size"
need_integer --max-tokens "$max_tokens"
need_integer --max-update "$max_update"
case " ${more[*]-} " in *" --cpu "*) hide_gpus ;; esac
use_environment

need_folder --out "$out"
prepared=${prepared:-$out/prepared}
if [ -z "$text" ]; then
    [ -f "$prepared/bin/complete" ] || die "--prepared $prepared: nothing prepared there; a scripts/prepare_*.sh does it, or give --text"
else
    supervise etads-prepare "$text" "$prepared" --tokens "$tokens" --size "$size" ${prepare[@]+"${prepare[@]}"}
fi

warmup=8000
if [ "$max_update" -lt 80000 ]; then
    warmup=$(((max_update + 9) / 10))
    case " ${more[*]-} " in
        *" --warmup-updates "* | *" --lr-scheduler "*) ;;
        *) say "--max-update $max_update: warming up for $warmup steps instead of 8,000" ;;
    esac
fi
train_once "$out" "$prepared" --arch "$arch" ${pointer:+--pointer "$pointer"} --optimizer adam --adam-betas '(0.9, 0.998)' \
    --adam-eps 1e-8 --lr 4.94e-4 --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --clip-norm 2 --max-tokens "$max_tokens" \
    --max-update "$max_update" ${task[@]+"${task[@]}"} ${more[@]+"${more[@]}"}
