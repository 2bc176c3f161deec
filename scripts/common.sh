# Sourced by the other scripts: errors, the environment, and installing the project into it.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${ETADS_VENV:-$ROOT/.venv}
# Use the plugin in the same repository as these scripts, which may differ from the installed plugin.
PLUGIN=fairseq_etads
[ ! -f "$ROOT/fairseq_etads/__init__.py" ] || PLUGIN=$ROOT/fairseq_etads

die() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

say() {
    echo "== $*" >&2
}

[ $((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1])) -ge 404 ] || die "bash $BASH_VERSION: bash 4.4 or newer is needed (macOS: brew install bash)"

# Ctrl-C ends a script even if the running command handles the signal in another way.
trap 'exit 130' INT
# Report commands that fail silently. Status 2 means that the command has printed an error, and a status above 128 means that it was
# ended by a signal.
trap 'status=$?; [ $status -eq 2 ] || [ $status -gt 128 ] || echo "$(basename "$0"): line $LINENO failed (status $status)" >&2' ERR

# number_of_version: print the version that fairseq_etads/version.py determines.
number_of_version() {
    python3 "$ROOT/fairseq_etads/version.py"
}

# usage: print the help text of the calling script, which is the comment at its beginning.
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

# supervise COMMAND...: run the command, and end it if this script is ended or killed. Bash alone would leave the command running.
supervise() {
    local child status=0 parent=${BASHPID:-$$}
    python3 -IS "$ROOT/fairseq_etads/pipeline/children.py" "$parent" "$@" <&0 &  # without <&0, bash would not pass on standard input
    child=$!
    # shellcheck disable=SC2064  # the process id must be expanded now
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

# end_by SIGNAL CHILD: end CHILD and then this script, with the exit status that shells use for SIGNAL.
end_by() {
    kill -TERM "$2" 2>/dev/null || true
    wait "$2" 2>/dev/null || true
    [ "$1" != INT ] || echo "$(basename "$0"): interrupted; the same command skips what is done" >&2
    exit $((128 + $(kill -l "$1")))
}

# say_processor_time: print the CPU seconds that this script and all finished processes that it started have used.
say_processor_time() {
    local file
    file=$(mktemp)
    times > "$file"  # a subshell would report its own times
    say "$(tr ms '  ' < "$file" | awk '{ total += 60 * ($1 + $3) + $2 + $4 } END { printf "%.0f", total }') s of processor time"
    rm -f "$file"
}

# need_path OPTION PATH: refuse a path that begins with "-", which commands would take for an option.
need_path() {
    case $2 in -?*) die "$1 $2: begins with -, like an option; write ./$2" ;; esac
}

# need_folder OPTION DIR: create DIR, the value of OPTION, or report why it cannot be written to.
need_folder() {
    need_path "$@"
    [ -d "$2" ] || [ ! -e "$2" ] || die "$1 $2: is a file; name a folder"
    mkdir -p "$2" 2>/dev/null || die "$1 $2: cannot be made; is a folder above it read-only, or a file?"
    [ -w "$2" ] || die "$1 $2: cannot be written to"
}

# Add the project's commands to PATH, from the active environment or otherwise from VENV.
use_environment() {
    if ! command -v etads-prepare >/dev/null; then
        [ -x "$VENV/bin/etads-prepare" ] || die "fairseq-etads is not installed; run scripts/install.sh"
        export PATH="$VENV/bin:$PATH"
    fi
    export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
}

# hide_gpus: hide the GPUs of this machine from all later commands. With --cpu alone, parts of fairseq still use GPUs.
hide_gpus() {
    export CUDA_VISIBLE_DEVICES=""
}

# prepare_corpus KIND [options of etads-corpus KIND] --out DIR [--jobs N] [-- options of etads-prepare]: convert raw data to
# DIR/text and DIR/prepared/bin.
prepare_corpus() {
    local kind=$1 out="" corpus=() prepare=() jobs=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            --out) need_value "$@"; out=$2; shift 2 ;;
            --jobs) need_value "$@"; need_integer "$1" "$2"; jobs=(--jobs "$2"); shift 2 ;;
            --) shift; prepare=("$@"); break ;;
            *) corpus+=("$1"); shift ;;
        esac
    done
    [ -n "$out" ] || die "--out is missing; see --help"
    case $kind in cnndm | gigaword | sumpubmed) prepare=(--corpus "$kind" "${prepare[@]}") ;; esac
    use_environment
    need_folder --out "$out"
    say "reading the corpus into $out/text"
    if [ "$kind" = debian ]; then
        supervise etads-debian "${corpus[@]}" --out "$out/text"
    else
        supervise etads-corpus "$kind" "${corpus[@]}" "${jobs[@]}" --out "$out/text"
    fi
    say "preparing $out/prepared"
    supervise etads-prepare "$out/text" "$out/prepared" "${jobs[@]}" "${prepare[@]}"
}

# train_once RUN PREPARED [options of fairseq-train]: train and show progress; the full output is in RUN/train.log. If training
# with these options and data has already finished, nothing is done.
train_once() {
    local run=$1 prepared=$2
    shift 2
    need_folder --out "$run"
    supervise python -m fairseq_etads.pipeline.training "$run" "$prepared" -- "$@" || exit $?
}

# once [options of pipeline/steps.py] -- COMMAND...: run a command unless the same command has already created its outputs from the
# same files.
once() {
    supervise python -m fairseq_etads.pipeline.steps "$@" || exit $?
}

# Options for train_small. The 12,000 training pairs in the sample corpus are too few for learning position embeddings.
SINUSOIDAL=(--no-encoder-learned-pos --no-decoder-learned-pos)

# train_small STEPS [options of etads-train] [-- options of fairseq-train]: train a model that is small enough for two
# cores and regularised for the 12,000 pairs in the sample corpus. The model sizes in the papers require the papers' corpora.
train_small() {
    local steps=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    case " ${options[*]} " in *" --text "*) options=(--size 5000 "${options[@]}") ;; esac
    supervise etads-train --recipe paper --truncate-source 60 --truncate-target 40 --max-tokens 4000 \
        --max-update "$steps" "${options[@]}" -- --encoder-layers 2 --decoder-layers 2 \
        --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 \
        --num-workers 0 --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 200 --total-num-update "$steps" \
        --adam-betas '(0.9, 0.98)' --label-smoothing 0.1 --dropout 0.2 "$@"
}

# read_options "OPTIONS" "$@": read options into variables that contain the defaults: --pg-data VALUE sets pg_data. If OPTIONS contains
# --archs=systems, --archs VALUE sets systems. If it contains --cpu, --cpu hides GPUs and sets the array device to (--cpu). If it
# contains --, all words after -- are stored in the array more (options of fairseq-train).
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
            --cpu) hide_gpus; device=(--cpu); shift ;;
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

# summarise_once RUN OUTPUT [options of generate.sh]: write the summaries of RUN, unless they exist and were created with the
# same options, checkpoints, content model, limits of length (RUN/recipe.json) and other input files.
summarise_once() {
    local run=$1 output=$2 word reads=("$1"/checkpoints/checkpoint_{best,last}.pt)
    shift 2
    for word in "$run"/{content.npz,recipe.json} "$@"; do [ ! -e "$word" ] || reads+=("$word"); done
    once --makes "$output" --reads "${reads[@]}" -- "$ROOT/scripts/generate.sh" --run "$run" --output "$output" "$@"
}

# score_once RUN TEXT [options of etads-rouge]: score RUN/summaries.txt against TEXT/test.target and, if the documents have several
# references, TEXT/test.target.1 and so on. Write RUN/rouge.json, unless it exists and was created from the same files.
score_once() {
    local run=$1 text=$2 references=("$2/test.target") file
    shift 2
    for file in "$text"/test.target.[0-9]*; do [ ! -f "$file" ] || references+=("$file"); done
    once --makes "$run/rouge.json" --reads "$run/summaries.txt" "${references[@]}" \
        -- etads-rouge "$run/summaries.txt" "${references[@]}" --json "$run/rouge.json" "$@"
}

# export_once RUN FOLDER CARD DERIVED [options of etads-export]: export RUN to FOLDER, with the text CARD at the end of the model card,
# unless this was done with the same options from the same checkpoints and content models. An older model folder is replaced. If it
# had other weights, DERIVED, a file that was made with it, is deleted. CARD and DERIVED can be empty. FOLDER.exported lists the files
# in FOLDER.
export_once() {
    local run=$1 folder=$2
    # The older folder stays until the new one is complete. etads-export writes nothing if commands are only checked.
    # shellcheck disable=SC2016  # expanded by the inner shell
    once --makes "$folder.exported" "$folder/model.safetensors" --reads "$run"/checkpoints/checkpoint_{best,last}.pt \
        "$run"/{content.npz,recipe.json} "$run"/shortened/extractor/{checkpoints/checkpoint_best.pt,content.npz} \
        -- bash -ec 'new=$2.new/$(basename "$2")
            rm -rf "$2.new"
            etads-export "$1" "$new" "${@:5}"
            [ -d "$new" ] || exit 0
            [ -z "$3" ] || printf "%s\n" "$3" >> "$new/README.md"
            [ -z "$4" ] || cmp -s "$new/model.safetensors" "$2/model.safetensors" || rm -f "$4"
            rm -rf "$2"
            mv "$new" "$2"
            rmdir "$2.new"
            ls "$2" > "$2.exported"' etads-export "$@"
}

# run_system RUN TEXT PREPARED COMMAND... [-- options of fairseq-train]: train with COMMAND (train_small or train_prepared, with
# options), summarise the test split (RUN/summaries.txt), and score the summaries (RUN/rouge.json). The arrays GENERATE and ROUGE
# contain options of generate.sh and etads-rouge. Finished steps are skipped.
run_system() {
    local run=$1 text=$2 prepared=$3 command=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    "${command[@]}" --prepared "$prepared" --out "$run" "$@"
    summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" "${GENERATE[@]}"
    score_once "$run" "$text" "${ROUGE[@]}"
}

# Optimiser of Nallapati et al. The code that theirs is based on implements Adadelta and ignores their learning rate of 0.001.
ADADELTA=(--optimizer lazy_adadelta --lr 1 --adadelta-rho 0.95 --adadelta-eps 1e-6 --clip-norm 1)

# Every script has this option. Options after -- are for another command.
for argument in "$@"; do
    case $argument in
        --) break ;;
        --version) echo "$(basename "$0") $(number_of_version)"; exit 0 ;;
    esac
done
unset argument
