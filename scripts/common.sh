# Sourced by the other scripts: errors, the environment, and installing the project into it.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${ETADS_VENV:-$ROOT/.venv}

die() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

say() {
    echo "== $*" >&2
}

# Ctrl-C ends a script, also if the command that runs takes it for something else
trap 'exit 130' INT
# a command that fails without a word must not end a script without one; 2: it has said why; above 128: a signal
trap 'status=$?; [ $status -eq 2 ] || [ $status -gt 128 ] || echo "$(basename "$0"): line $LINENO failed (status $status)" >&2' ERR

# number_of_version: the one in fairseq_etads/__init__.py.
number_of_version() {
    sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$ROOT/fairseq_etads/__init__.py"
}

# usage: print the help of the calling script, which is the comment at its head.
usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
    echo "  --version prints the version, --help this text"
    exit 0
}

need_value() {
    [ $# -ge 2 ] && [ -n "$2" ] || die "$1 needs a value; see --help"
}

need_integer() {
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 $2: choose a whole number above 0"
}

need_choice() {
    local option=$1 value=$2
    shift 2
    local choice
    for choice in "$@"; do [ "$choice" = "$value" ] && return; done
    die "$option $value: choose one of: $*"
}

# need_prepared OPTION DIR SCRIPT: fail unless DIR, the value of OPTION, holds prepared data, which SCRIPT makes.
need_prepared() {
    [ -n "$2" ] || die "$1 is missing; see --help"
    [ -f "$2/prepared/bin/complete" ] || die "$1 $2: no prepared data in it; $3 makes them"
}

# say_vocabulary PREPARED SOURCE TARGET: say how many words the data knows of documents and of summaries, and whether it was made
# for as many as the paper has, SOURCE and TARGET.
say_vocabulary() {
    python - "$@" <<'PYTHON' | while IFS= read -r line; do say "$line"; done
import json, pathlib, sys
path, paper = pathlib.Path(sys.argv[1]) / "report.json", dict(zip(("source", "target"), map(int, sys.argv[2:])))
report = json.loads(path.read_text(encoding="utf-8")).get("vocabulary") or {"known": {}, "asked": {}}
for side, what in (("source", "documents"), ("target", "summaries")):
    known, asked = report["known"].get(side), report["asked"].get(side)
    line = f"vocabulary of {what}: {known} words, {asked} asked for, {paper[side]} in the paper"
    print(line if asked == paper[side] else f"WARNING: {line}; --help says how to make the data")
PYTHON
}

# supervise COMMAND...: run it, and end it if this script is ended; bash by itself would leave it running.
supervise() {
    "$@" <&0 &  # bash would give it no standard input
    local child=$! status=0
    # shellcheck disable=SC2064  # the child's number is wanted now
    trap "end_by INT $child" INT
    # shellcheck disable=SC2064
    trap "end_by TERM $child" TERM
    # shellcheck disable=SC2064
    trap "end_by HUP $child" HUP
    wait "$child" || status=$?
    trap - TERM HUP
    trap 'exit 130' INT
    return "$status"
}

# end_by SIGNAL CHILD: end CHILD and then this script, with the exit status that shells give to SIGNAL.
end_by() {
    kill -TERM "$2" 2>/dev/null || true
    wait "$2" 2>/dev/null || true
    [ "$1" != INT ] || echo "$(basename "$0"): interrupted; the same command goes on from here" >&2
    exit $((128 + $(kill -l "$1")))
}

# need_folder OPTION DIR: make DIR, the value of OPTION, or say why it cannot be written to.
need_folder() {
    [ -d "$2" ] || [ ! -e "$2" ] || die "$1 $2: is a file; name a folder"
    mkdir -p "$2" 2>/dev/null || die "$1 $2: cannot be made; is a folder above it read-only, or a file?"
    [ -w "$2" ] || die "$1 $2: cannot be written to"
}

# Put the project's commands on PATH: those of the environment that is active, else those of VENV.
use_environment() {
    if ! command -v etads-prepare >/dev/null; then
        [ -x "$VENV/bin/etads-prepare" ] || die "fairseq-etads is not installed; run scripts/install.sh"
        export PATH="$VENV/bin:$PATH"
    fi
    export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
}

# prepare_corpus KIND "DEFAULTS" [options of etads-corpus KIND] --out DIR [--jobs N] [-- options of etads-prepare]: from
# raw data to DIR/text and DIR/prepared/bin. DEFAULTS are options of etads-prepare, which the caller's override.
prepare_corpus() {
    local kind=$1 defaults=$2 out="" corpus=() prepare=() jobs=()
    shift 2
    while [ $# -gt 0 ]; do
        case $1 in
            --out) need_value "$@"; out=$2; shift 2 ;;
            --jobs) need_value "$@"; need_integer "$1" "$2"; jobs=(--jobs "$2"); shift 2 ;;
            --) shift; prepare=("$@"); break ;;
            *) corpus+=("$1"); shift ;;
        esac
    done
    [ -n "$out" ] || die "--out is missing; see --help"
    # GPT-2's pieces are of raw text and as many as they are: no defaults of a corpus go with them
    case " ${prepare[*]-} " in *" --tokens gpt2 "*) defaults="" ;; esac
    use_environment
    need_folder --out "$out"
    say "reading the corpus into $out/text"
    if [ "$kind" = debian ]; then
        supervise etads-debian ${corpus[@]+"${corpus[@]}"} --out "$out/text"
    else
        supervise etads-corpus "$kind" ${corpus[@]+"${corpus[@]}"} ${jobs[@]+"${jobs[@]}"} --out "$out/text"
    fi
    say "preparing $out/prepared"
    # shellcheck disable=SC2086  # words of options
    supervise etads-prepare "$out/text" "$out/prepared" $defaults ${jobs[@]+"${jobs[@]}"} ${prepare[@]+"${prepare[@]}"}
}

# inference_options PREPARED: print the options with which fairseq treats new text like the prepared text, one word a line.
inference_options() {
    python - "$1" <<'PYTHON'
import pathlib, sys
folder, sys.argv[0] = pathlib.Path(sys.argv[1]), "etads-prepare"  # a command for which torch and fairseq are not imported
from etads_preprocess.command import errors_in_one_line
from etads_preprocess.prepare import command_line, prepared_options
with errors_in_one_line("generate.sh"):
    print("\n".join(command_line(prepared_options(folder))))
PYTHON
}

# run_fairseq LOG [options of fairseq_log.py] -- COMMAND...: run a command of fairseq; what it says goes to the end of LOG, and to the
# terminal what a user wants to know of it: progress, warnings, the reason of a failure.
run_fairseq() {
    supervise python "$ROOT/scripts/fairseq_log.py" "$@"
}

# train_once RUN PREPARED [options of fairseq-train]: train, and show progress; everything is in RUN/train.log. Does nothing if
# training with these options has finished: fairseq-train would do one step more each time it is started again. Checkpoints are
# written every 1,000 steps and at the end of every epoch; the last and the best are kept.
train_once() {
    local run=$1 prepared=$2 command wanted
    shift 2
    command=(fairseq-train "$prepared/bin" --user-dir fairseq_etads --task summarization --criterion summarization_nll
        --save-dir "$run/checkpoints" --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 1
        --no-progress-bar --log-format simple --log-interval 10 "$@")
    wanted=$(without_log_interval <<< "${command[*]}")
    if [ "$(cat "$run/finished.txt" 2>/dev/null | without_log_interval)" = "$wanted" ]; then
        say "already trained with these options (delete $run/finished.txt to go on): $run/checkpoints/checkpoint_best.pt"
        return
    fi
    need_folder --out "$run"
    note_other_options "$run" "$wanted"
    say "training $run; Ctrl-C interrupts it, and the same command goes on; log: $run/train.log"
    run_fairseq "$run/train.log" ${USUAL_MINUTES:+--usual-minutes "$USUAL_MINUTES"} -- "${command[@]}" || exit 2
    echo "${command[*]}" > "$run/finished.txt"
    rm -f "$run/started.txt"
    if [ -f "$run/checkpoints/checkpoint_best.pt" ]; then
        say "best checkpoint: $run/checkpoints/checkpoint_best.pt"
    else
        say "last checkpoint: $run/checkpoints/checkpoint_last.pt"
    fi
}

# without_log_interval: a command on stdin without the option that changes nothing but the log.
without_log_interval() {
    sed 's/ --log-interval [0-9]*//g'
}

# note_other_options RUN COMMAND: say if the checkpoints in RUN come from another command, which training would silently go on from.
note_other_options() {
    local run=$1 before
    before=$({ cat "$run/started.txt" "$run/finished.txt" 2>/dev/null || true; } | head -n 1 | without_log_interval)
    if [ -f "$run/checkpoints/checkpoint_last.pt" ] && [ -n "$before" ] && [ "$before" != "$2" ]; then
        say "$run holds a training with other options; going on from its last checkpoint with these (another --out begins anew):"
        diff <(tr ' ' '\n' <<< "$before") <(tr ' ' '\n' <<< "$2") | sed -n 's/^\([<>]\) /     \1 /p' >&2 || true
    fi
    echo "$2" > "$run/started.txt"
}

# For train_small: the 12,000 training pairs of the sample corpus are too few to learn position embeddings from.
SINUSOIDAL=(--no-encoder-learned-pos --no-decoder-learned-pos)

# train_small STEPS [options of train.sh] [-- options of fairseq-train]: a model small enough for two cores, regularised
# for the 12,000 pairs of the sample corpus; the papers' sizes need the papers' corpora.
train_small() {
    local steps=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    supervise "$ROOT/scripts/train.sh" --size 5000 --truncate-source 60 --truncate-target 40 --max-tokens 4000 \
        --max-update "$steps" ${options[@]+"${options[@]}"} -- --encoder-layers 2 --decoder-layers 2 \
        --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 \
        --num-workers 0 --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 200 --total-num-update "$steps" \
        --adam-betas '(0.9, 0.98)' --label-smoothing 0.1 --dropout 0.2 "$@"
}

# read_options "OPTIONS" "$@": read options into variables, which hold the defaults: --pg-data VALUE into pg_data, and where OPTIONS
# says --archs=systems, --archs VALUE into systems. --cpu, if it is among OPTIONS, makes the array device (--cpu); so does --,
# if it is, of all that follows it (options of fairseq-train) the array more.
read_options() {
    local offered=" $1 " variable
    device=() more=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in -h | --help) usage ;; esac
        if [[ $offered != *" $1 "* && $offered != *" $1="* ]]; then
            [[ $offered != *" -- "* ]] || die "unknown option $1; see --help (options of fairseq-train come after --)"
            die "unknown option $1; see --help"
        fi
        case $1 in
            --cpu) device=(--cpu); shift ;;
            --) shift; more=("$@"); break ;;
            *)
                need_value "$@"
                variable=${1#--}
                [[ ! $offered =~ " $1="([a-z]+) ]] || variable=${BASH_REMATCH[1]}
                printf -v "${variable//-/_}" %s "$2"
                shift 2 ;;
        esac
    done
}

# need_choices OPTION "LIST" "ALL": fail unless every word of LIST, the value of OPTION, is one of ALL.
need_choices() {
    local value
    # shellcheck disable=SC2086  # words of lists
    for value in $2; do need_choice "$1" "$value" $3; done
}

# read_comparison OPTION "$@": read the options of a comparison on Debian synopses into the variables out, steps, seeds,
# systems and text, the first four of which must hold their defaults, systems that is all there are; OPTION (--archs, for example) lists them. Without
# --text, text is the sample corpus, unpacked. A script whose variable size holds a default has the option --size, too.
read_comparison() {
    local option=$1 all=$systems
    text=""
    shift
    read_options "--out --steps --seeds $option=systems --text${size:+ --size}" "$@"
    [ -z "${size:-}" ] || need_integer --size "$size"
    need_integer --steps "$steps"
    need_choices "$option" "$systems" "$all"
    use_environment
    [ -z "$text" ] || [ -f "$text/test.source" ] || die "--text $text: no test.source in it; etads-debian makes it"
    [ -n "$text" ] || { text=$out/text; etads-debian --sample --out "$text"; }
}

# summarise_once RUN OUTPUT [options of generate.sh]: summaries by RUN, unless OUTPUT is newer than the end of its training.
summarise_once() {
    local run=$1 output=$2
    shift 2
    [ "$output" -nt "$run/finished.txt" ] || supervise "$ROOT/scripts/generate.sh" --run "$run" --output "$output" "$@"
}

# score_once RUN TEXT [options of etads-rouge]: score RUN/summaries.txt by TEXT/test.target into RUN/rouge.json, unless that is newer.
score_once() {
    local run=$1 text=$2
    shift 2
    [ "$run/rouge.json" -nt "$run/summaries.txt" ] ||
        etads-rouge "$run/summaries.txt" "$text/test.target" --json "$run/rouge.json" "$@"
}

# run_system RUN TEXT PREPARED COMMAND... [-- options of fairseq-train]: train with COMMAND (train_small or train_prepared, and
# its options), then summarise the test split and score the summaries: RUN/summaries.txt, RUN/rouge.json. The arrays GENERATE
# and ROUGE hold options of generate.sh and etads-rouge. Does only what has not been done.
run_system() {
    local run=$1 text=$2 prepared=$3 command=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    "${command[@]}" --prepared "$prepared" --out "$run" "$@"
    summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" ${GENERATE[@]+"${GENERATE[@]}"}
    score_once "$run" "$text" ${ROUGE[@]+"${ROUGE[@]}"}
}

# train_prepared [options of train.sh] [-- options of fairseq-train]: train on data that are prepared already.
train_prepared() {
    supervise "$ROOT/scripts/train.sh" "$@"
}

# score_table DIR NAMES SEEDS [FILE [MEASURE]]: print a Markdown table of the scores in DIR/NAME-SEED/FILE (default:
# rouge.json). NAMES and SEEDS are lists of words; MEASURE is f1 (default), precision or recall.
score_table() {
    python - "$@" <<'PYTHON'
import json, pathlib, sys
out, names, seeds = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
file, measure = [*sys.argv[4:], *("rouge.json", "f1")[len(sys.argv) - 4 :]]
rows = []
for name in names:
    for seed in seeds:
        report = json.loads((out / f"{name}-{seed}" / file).read_text())
        scores = report["scores"]
        cells = [f"{s[measure]:.2f} [{s[f'{measure}_interval'][0]:.2f}, {s[f'{measure}_interval'][1]:.2f}]" for s in scores.values()]
        rows.append(f"| `{name}` | {seed} | {' | '.join(cells)} |")
print(f"| system | seed | {' | '.join(f'ROUGE-{metric[5:]}' for metric in scores)} |\n|{'---|' * (len(scores) + 2)}")
print(*rows, report["signature"], sep="\n")
PYTHON
}

# train_recurrent RUN PREPARED [options of fairseq-train]: train a recurrent model, sorting by length within every ten batches.
# Does nothing if that has been done with these options, and goes on if it was interrupted.
train_recurrent() {
    local run=$1 prepared=$2
    shift 2
    train_once "$run" "$prepared" --batch-size 50 --required-batch-size-multiple 1 --sort-within 10 "$@"
}

# train_selector RUN PREPARED LABELS [options of fairseq-train]: a selector trained on the labels in LABELS with the optimiser of
# Gehrmann et al. and Hsu et al. 2018; its probabilities of validation and test documents, in RUN, and RUN/report.json, how good they are.
train_selector() {
    local run=$1 prepared=$2 labels=$3
    shift 3
    train_once "$run" "$prepared" --criterion selection_nll --labels "$labels" --optimizer lazy_adagrad --lr 0.15 \
        --initial-accumulator 0.1 --clip-norm 2 --batch-size 32 --required-batch-size-multiple 1 \
        ${device[@]+"${device[@]}"} "$@"
    [ "$run/report.json" -nt "$run/finished.txt" ] ||
        supervise etads-select "$run" --prepared "$prepared" --labels "$labels" --subset valid test --report "$run/report.json"
}

# read_stages: read the variable stages, such as "50/15 100/25", into the array lengths, and check that steps, of all stages, leaves
# some for the last one after stage_steps in each of the others.
read_stages() {
    local length
    need_integer --steps "$steps"
    need_integer --stage-steps "$stage_steps"
    read -ra lengths <<< "$stages"
    [ ${#lengths[@]} -gt 0 ] || die "--stages is empty; see --help"
    for length in "${lengths[@]}"; do
        [[ $length =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] || die "--stages $stages: \"$length\" is not DOCUMENT/SUMMARY, two numbers above 0"
    done
    [ $(((${#lengths[@]} - 1) * stage_steps)) -lt "$steps" ] ||
        die "--steps $steps: ${#lengths[@]} stages of $stage_steps steps (--stage-steps) take more; choose more steps or fewer --stages"
}

# train_stage RUN PREPARED LENGTHS [options of fairseq-train]: train as See et al. do, on documents and summaries of at most LENGTHS
# tokens.
train_stage() {
    local run=$1 prepared=$2 source=${3%/*} target=${3#*/}
    shift 3
    train_once "$run" "$prepared" --batch-size 16 --required-batch-size-multiple 1 --sort-within 100 --no-end-if-cut \
        --truncate-source "$source" --truncate-target "$target" --length-normalised --optimizer lazy_adagrad --lr 0.15 \
        --initial-accumulator 0.1 --clip-norm 2 ${device[@]+"${device[@]}"} "$@" ${more[@]+"${more[@]}"}
}

# train_pointer_generator RUN PREPARED SEED: all stages of See et al.'s model.
train_pointer_generator() {
    train_in_stages "$@" --arch pointer_generator
}

# train_in_stages RUN PREPARED SEED [options of fairseq-train]: all stages (see read_stages). Each goes on where the one before
# ended, with its optimiser; the last one is RUN itself, the others are in RUN/stages.
train_in_stages() {
    local run=$1 prepared=$2 seed=$3 number stage before=() last=$((${#lengths[@]} - 1))
    shift 3
    for ((number = 0; number < last; number++)); do
        stage=$run/stages/$((number + 1))
        # no validation: its losses could not be compared with those of other lengths
        train_stage "$stage" "$prepared" "${lengths[number]}" --seed "$seed" "$@" ${before[@]+"${before[@]}"} \
            --max-update $(((number + 1) * stage_steps)) --disable-validation
        before=(--continue-once "$stage/checkpoints/checkpoint_last.pt")
    done
    train_stage "$run" "$prepared" "${lengths[last]}" --seed "$seed" "$@" ${before[@]+"${before[@]}"} --max-update "$steps"
}

# train_see2017 DIR ROWS SEED [options of fairseq-train]: the rows of see2017_cnndm.sh in DIR/ROW-SEED. The caller's variables data,
# stages, stage_steps, steps and coverage_steps are its options (empty: the default), and the arrays device and more.
train_see2017() {
    local dir=$1 rows=$2 seed=$3 options=(--data "$data" --seeds "$3" ${device[@]+"${device[@]}"})
    shift 3
    [ -z "$stages" ] || options+=(--stages "$stages")
    [ -z "$stage_steps" ] || options+=(--stage-steps "$stage_steps")
    [ -z "$steps" ] || options+=(--steps "$steps")
    [ -z "$coverage_steps" ] || options+=(--coverage-steps "$coverage_steps")
    "$ROOT/scripts/reproduce/see2017_cnndm.sh" "${options[@]}" --out "$dir" --rows "$rows" -- ${more[@]+"${more[@]}"} "$@" \
        > /dev/null  # its table is not that of the caller
}

# train_with_rewards RUN BEFORE SEED REWARDS [options of fairseq-train]: go on from the run BEFORE, a pointer-generator with coverage,
# with rl_steps steps of --rewards REWARDS; then summaries and scores. See train_see2017 for data, device and more.
train_with_rewards() {
    local run=$1 before=$2 seed=$3 rewards=$4
    shift 4
    train_once "$run" "$data/prepared" --arch pointer_generator_coverage --batch-size 16 --required-batch-size-multiple 1 \
        --sort-within 100 --no-end-if-cut --truncate-source 400 --truncate-target 100 --criterion summarization_rl \
        --rewards "$rewards" --rl-weight 0.998 --rl-max-len 100 --coverage-loss 1 --optimizer adam --lr 1e-4 --clip-norm 2 \
        --init-from "$before/checkpoints/checkpoint_last.pt" --max-update "$rl_steps" --seed "$seed" \
        --eval-rouge --best-checkpoint-metric rougeL --maximize-best-checkpoint-metric \
        ${device[@]+"${device[@]}"} ${more[@]+"${more[@]}"} "$@"
    summarise_and_score "$run" "$data" --beam 4 --min-len 35 --max-len 120 \
        ${device[@]+"${device[@]}"}
}

# train_nli TEXT DIR [options of etads-nli train]: an entailment model in DIR/model, trained on pairs made from TEXT/train.target
# (DIR/pairs), unless it is there.
train_nli() {
    local text=$1 dir=$2
    shift 2
    [ ! -f "$dir/finished.txt" ] || return 0
    need_folder --out "$dir"
    say "training an entailment model on pairs of reference summaries, in $dir"
    [ -f "$dir/pairs/valid.tsv" ] || supervise etads-nli synthesise "$text" "$dir/pairs" >&2
    supervise etads-nli train "$dir/model" --train "$dir/pairs/train.tsv" --valid "$dir/pairs/valid.tsv" \
        ${device[@]+--device cpu} "$@" >&2
    touch "$dir/finished.txt"
}

# train_small_recurrent STEPS RUN PREPARED ARCH [options of fairseq-train]: a recurrent model small enough for two cores.
train_small_recurrent() {
    local steps=$1 run=$2 prepared=$3 arch=$4 coverage=()
    shift 4
    [ "$arch" != pg_coverage ] || coverage=(--coverage-loss 1 --coverage-loss-start $((steps * 4 / 5)))
    train_recurrent "$run" "$prepared" --arch "$arch" --encoder-embed-dim 100 --encoder-hidden-size 128 --attention-dim 128 \
        --dropout 0.2 --truncate-source 60 --truncate-target 40 --optimizer lazy_adam --lr 1e-3 --clip-norm 2 \
        --max-update "$steps" --num-workers 0 --cpu ${coverage[@]+"${coverage[@]}"} "$@"
}

# train_convolutional RUN DATA [options of fairseq-train]: train a convolutional model on DATA/prepared with the optimiser of Gehring
# et al. 2017: Nesterov's gradient, whose rate falls to a tenth after an epoch without a better validation loss.
train_convolutional() {
    local run=$1 data=$2
    shift 2
    train_once "$run" "$data/prepared" --optimizer nag --momentum 0.99 --clip-norm 0.1 --lr-scheduler reduce_lr_on_plateau \
        --lr-shrink 0.1 --required-batch-size-multiple 1 "$@"
}

# summarise_and_score RUN DATA [options of generate.sh]: RUN/summaries.txt of the test documents, and their scores, RUN/rouge.json.
summarise_and_score() {
    local run=$1 data=$2
    shift 2
    summarise_once "$run" "$run/summaries.txt" --prepared "$data/prepared" "$@"
    score_once "$run" "$data/text"
}

# summarise_and_score_duc RUN DUC [options of generate.sh]: RUN/duc.txt of the documents in DUC, and recall at 75 bytes, RUN/duc.json.
summarise_and_score_duc() {
    local run=$1 duc=$2
    shift 2
    summarise_once "$run" "$run/duc.txt" --prepared "$duc/prepared" "$@"
    [ "$run/duc.json" -nt "$run/duc.txt" ] || etads-rouge "$run/duc.txt" "$duc"/text/test.target* --duc75 --json "$run/duc.json"
}

# The optimiser of Nallapati et al.: Adadelta as in the code that they started from, which ignores their rate of 0.001.
ADADELTA=(--optimizer lazy_adadelta --lr 1 --adadelta-rho 0.95 --adadelta-eps 1e-6 --clip-norm 1)

# every script has this option; what stands after -- is for another command
for argument in "$@"; do
    case $argument in
        --) break ;;
        --version) echo "$(basename "$0") $(number_of_version)"; exit 0 ;;
    esac
done
unset argument
