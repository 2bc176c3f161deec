#!/usr/bin/env bash
# Prepare parallel text, and train a model on it. To continue after an interruption, run the same command again.
#
#   scripts/train.sh --text DIR --out DIR [options] [-- options of fairseq-train]
#
#   --text PATH         folder containing {train,valid,test}.{source,target} with one document or summary per line, or
#                       table of pairs (.jsonl, .csv, .tsv, .parquet), which etads-corpus converts to such a folder,
#                       DIR/text
#   --out DIR           output folder for checkpoints/ and prepared/ (tokens, dictionary, binarised data)
#   --long              for documents that are longer than the input of a model: first train an extractor, which picks
#                       the most probable sentences of each document (see below)
#   --words N           with --long: maximum number of words that the extractor picks from a document (default: 200)
#   --no-content        do not train a content model. All recipes except paper train this model at the end, which takes
#                       a minute or two. During decoding, it chooses among the hypotheses in the beam (docs/decoding.md)
#                       or, with --long, the sentences of summaries (docs/long.md)
#   --prepared DIR      folder of the prepared data, which several models can share (default: in --out); without --text,
#                       the folder must already exist, for example as output of scripts/prepare_*.sh
#   --recipe NAME       small (minutes on two cores), base (an hour), large (a GPU), or paper (the settings of ETADS)
#                       (default: chosen and printed according to the size of the data and the machine; see below)
#   --minutes N         train for at most N minutes; the recipe, except paper, adapts its number of steps and learning
#                       rate
#   --arch NAME         architecture, as listed by etads-models (default: etads)
#   --pointer KIND      mechanism for copying document words, including unknown words: none, soft or switch (default:
#                       soft; paper: as in the architecture)
#   --tokens KIND       type of tokens: bpe, sentencepiece or word (default: word; large and paper: bpe)
#   --size N            number of BPE merges, SentencePiece pieces or words (default: according to the size of the data;
#                       paper: 8000)
#   --keep-case         preserve case instead of converting the text to lower case
#   --text-words KIND   rules for splitting text into words, as in etads-prepare --words (default: moses; ptb for the
#                       extractor of --long)
#   --split A/B/C, --source-column NAME, --target-column NAME   proportions of the splits and column names of a table,
#                       as in etads-corpus table (default: 90/5/5, common column names)
#   --truncate-source N, --truncate-target N   maximum number of tokens to read from documents and summaries (default:
#                       according to the data; paper: 400, 100)
#   --max-tokens N      maximum number of source tokens per batch (default: 4000; large: 16000; paper: 4096). The number
#                       of pairs in a batch is a multiple of 8, unless it is smaller than 8; to allow other numbers,
#                       give -- --required-batch-size-multiple 1
#   --max-update N      number of training steps (default: according to the available time; paper: 200000)
#   --processes N       train with N processes, each with its own batches (default: one per GPU, or one)
#   --cpu               do not use a GPU
#
# A recipe chooses these settings, and also the optimiser, the learning rate, dropout, warm-up, label smoothing, the
# variants of the pointer and of focus-attention, and the initial word vectors and output bias. The script prints the
# chosen settings and the expected duration, and stores the settings in DIR/recipe.json. This file also contains limits
# for the length of summaries, which are derived from the training summaries; scripts/generate.sh and etads-export use
# them as defaults. Options that you give override the recipe. Options of fairseq-train follow after --, for example:
#
#   scripts/train.sh --text data/mine --out runs/mine
#   scripts/train.sh --text data/mine --out runs/mine --recipe base --minutes 30 -- --seed 2
#
# For documents of any length, use --long. The extractor and the shortened text are stored in DIR/shortened, and the
# model reads the probability level of each picked sentence (docs/long.md). The script then trains the content model of
# the extractor (etads-content). The exported model accepts whole documents, and chooses the sentences of their
# summaries:
#
#   scripts/train.sh --text mine.jsonl --out runs/mine --long
#   etads-export runs/mine model
#
# --recipe paper uses the optimiser of the ETADS paper: Adam (0.9, 0.998), 8,000 warm-up steps to a learning rate of
# 4.94e-4 (the peak of Noam's schedule at width 512), followed by inverse square root decay, a maximum gradient norm of
# 2, and no label smoothing. If training takes fewer than 80,000 steps, a tenth of them are warm-up steps. The other
# recipes are for Transformers trained from scratch. For other architectures, or if DIR contains a run that was started
# without a recipe, the default is paper.
#
# During training, the script shows steps, the remaining time, validations and fairseq's warnings; DIR/train.log
# contains the complete output. To plot curves, run etads-plot DIR (pip install matplotlib). To view curves in a
# browser, give -- --tensorboard-logdir DIR/curves and run tensorboard --logdir DIR/curves (pip install tensorboard), or
# give -- --wandb-project NAME (pip install wandb). For summaries at each validation, give -- --validation-samples 3.
#
# The model is validated and saved every 1,000 steps and at the end of each epoch (-- --validate-interval-updates N:
# every N steps); the last and the best checkpoint are kept. Ctrl-C saves the current step, and the same command
# continues from there. If the machine stops, at most ten minutes of training are lost (-- --save-interval-minutes N).

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

text="" out="" prepared="" recipe="" minutes="" arch=etads tokens="" size="" max_tokens="" max_update="" pointer="" processes=1
long="" content=1 budget="" text_words="" prepare=() table=() task=() more=()
while [ $# -gt 0 ]; do
    case $1 in
        --text) need_value "$@"; text=$2; shift 2 ;;
        --out) need_value "$@"; out=$2; shift 2 ;;
        --prepared) need_value "$@"; prepared=$2; shift 2 ;;
        --recipe) need_value "$@"; recipe=$2; shift 2 ;;
        --long) long=1; shift ;;
        --words) need_value "$@"; need_integer "$1" "$2"; budget=$2; shift 2 ;;
        --no-content) content=""; shift ;;
        --text-words) need_value "$@"; text_words=$2; shift 2 ;;
        --split | --source-column | --target-column) need_value "$@"; table+=("$1" "$2"); shift 2 ;;
        --minutes) need_value "$@"; minutes=$2; shift 2 ;;
        --arch) need_value "$@"; arch=$2; shift 2 ;;
        --pointer) need_value "$@"; pointer=$2; shift 2 ;;
        --tokens) need_value "$@"; tokens=$2; shift 2 ;;
        --size) need_value "$@"; size=$2; shift 2 ;;
        --keep-case) prepare+=(--keep-case); shift ;;
        --truncate-source | --truncate-target) need_value "$@"; need_integer "$1" "$2"; task+=("$1" "$2"); shift 2 ;;
        --max-tokens) need_value "$@"; max_tokens=$2; shift 2 ;;
        --max-update) need_value "$@"; max_update=$2; shift 2 ;;
        --processes) need_value "$@"; need_integer "$1" "$2"; processes=$2; more+=(--distributed-world-size "$2"); shift 2 ;;
        --cpu) more+=(--cpu); shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of fairseq-train come after --)" ;;
    esac
done
[ -n "$text" ] || [ -n "$prepared" ] || die "--text is missing; see --help"
[ -n "$out" ] || die "--out is missing; see --help"
[ -z "$budget" ] || [ -n "$long" ] || die "--words $budget: has no effect without --long; the rules for splitting words are set by --text-words"
if [ -z "$text" ]; then
    [ -z "$long" ] || die "--long: needs --text, because --prepared $prepared is used unchanged (docs/long.md has the separate commands)"
    ignored="${tokens:+--tokens $tokens }${size:+--size $size }${text_words:+--text-words $text_words }${table[*]} ${prepare[*]}"
    ignored=${ignored# }
    ignored=${ignored%% --*}
    ignored=${ignored%% }
    [ -z "$ignored" ] || die "${ignored% }: has no effect without --text, because --prepared $prepared is used unchanged"
elif [ ! -f "$text" ]; then
    [ ${#table[@]} -eq 0 ] || die "${table[0]} ${table[1]}: needs a table, and --text $text is not one"
fi
[ -z "$recipe" ] || need_choice --recipe "$recipe" small base large paper
[ -z "$tokens" ] || need_choice --tokens "$tokens" bpe sentencepiece word
[ -z "$pointer" ] || need_choice --pointer "$pointer" none soft switch
for name in size max_tokens max_update minutes; do [ -z "${!name}" ] || need_integer "--${name//_/-}" "${!name}"; done
cpu=()
case " ${more[*]} " in *" --cpu "*) hide_gpus; cpu=(--cpu) ;; esac
if [ -n "$long" ]; then
    # If the user specifies --source-factors, such as none, that value overrides this one.
    task+=(--source-factors salience)
    prepare+=(--factors salience)
fi
use_environment

need_folder --out "$out"
prepared=${prepared:-$out/prepared}
given=(${pointer:+--pointer "$pointer"} ${max_tokens:+--max-tokens "$max_tokens"} ${max_update:+--max-update "$max_update"}
    "${task[@]}" "${more[@]}")

# choose_settings STAGE: print the options that the recipe chooses for preparation, training or the content model, one word per
# line. For the recipe paper, and for data that a content model cannot read, nothing is printed. For the stage check, --minutes is
# checked and nothing is printed.
choose_settings() {
    # With this command name, torch and fairseq are not imported. Importing them would take seconds.
    python -c 'import sys; sys.argv[0] = "etads-prepare"; from fairseq_etads.jobs.recipe_choice import main; sys.exit(main())' \
        "$1" "$out" "$prepared" ${recipe:+--recipe "$recipe"} ${text:+--text "$text"} --arch "$arch" ${tokens:+--tokens "$tokens"} \
        ${size:+--size "$size"} ${minutes:+--minutes "$minutes"} "${cpu[@]}" --processes "$processes" \
        --given "${given[@]}"
}
[ -z "$minutes" ] || choose_settings check || exit 2

if [ -f "$text" ]; then
    say "reading $text into $out/text"
    supervise etads-corpus table --input "$text" "${table[@]}" --out "$out/text"
    text=$out/text
fi
if [ -n "$long" ]; then
    # As in choose_settings, torch and fairseq are not imported with this command name.
    budget=$(python -c 'import sys; sys.argv[0] = "etads-prepare"; from fairseq_etads.jobs.long_documents import main; sys.exit(main())' \
        "$text" --arch "$arch" --extractor "$out/shortened/extractor" ${budget:+--words "$budget"} \
        $([ -n "$content" ] || echo --no-content)) || exit 2
    say "sentence extractor: $out/shortened/extractor"
    supervise "$ROOT/scripts/shorten.sh" --text "$text" --out "$out/shortened" --words "$budget" \
        ${text_words:+--text-words "$text_words"} "${cpu[@]}"
    if [ -n "$content" ]; then
        say "content model of the sentences to choose: $out/shortened/extractor/content.npz"
        once --makes "$out/shortened/extractor/content.npz" --reads "$out/shortened/extractor/prepared/bin" \
            "$out/shortened/extractor/probabilities.sentences."{train,valid} -- etads-content "$out/shortened/extractor"
    fi
    text=$out/shortened/text
fi
if [ -z "$text" ]; then
    [ -f "$prepared/bin/complete" ] || die "--prepared $prepared: no prepared data there; make it with a scripts/prepare_*.sh, or give --text"
else
    chosen=()
    if [ "$recipe" != paper ] && [ -f "$text/train.source" ]; then
        words=$(choose_settings prepare) || exit 2
        [ -z "$words" ] || while IFS= read -r word; do chosen+=("$word"); done <<< "$words"
    fi
    supervise etads-prepare "$text" "$prepared" --tokens "${tokens:-bpe}" --size "${size:-8000}" "${chosen[@]}" \
        ${text_words:+--words "$text_words"} "${prepare[@]}"
fi

chosen=()
if [ "$recipe" != paper ]; then
    words=$(choose_settings train) || exit 2
    [ -z "$words" ] || while IFS= read -r word; do chosen+=("$word"); done <<< "$words"
fi
if [ ${#chosen[@]} -gt 0 ]; then
    train_once "$out" "$prepared" --arch "$arch" "${chosen[@]}" "${given[@]}"
    arguments=()
    if [ -n "$content" ] && [ -z "$long" ]; then
        words=$(choose_settings content) || exit 2
        [ -z "$words" ] || while IFS= read -r word; do arguments+=("$word"); done <<< "$words"
    fi
    if [ ${#arguments[@]} -gt 0 ]; then
        say "content model, by which decoding chooses among the hypotheses of the beam: $out/content.npz"
        once --makes "$out/content.npz" --reads "$prepared/bin" "$out/checkpoints/checkpoint_best.pt" \
            -- etads-content "${arguments[@]}"
    fi
    say_processor_time
    exit
fi

max_update=${max_update:-200000}
warmup=8000
if [ "$max_update" -lt 80000 ]; then
    warmup=$(((max_update + 9) / 10))
    case " ${more[*]} " in
        *" --warmup-updates "* | *" --lr-scheduler "*) ;;
        *) say "--max-update $max_update: warming up for $warmup steps instead of 8,000" ;;
    esac
fi
train_once "$out" "$prepared" --arch "$arch" ${pointer:+--pointer "$pointer"} --optimizer adam --adam-betas '(0.9, 0.998)' \
    --adam-eps 1e-8 --lr 4.94e-4 --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --clip-norm 2 \
    --max-tokens "${max_tokens:-4096}" --max-update "$max_update" "${task[@]}" "${more[@]}"
say_processor_time
