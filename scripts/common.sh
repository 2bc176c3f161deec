# Sourced by the other scripts: errors, the environment, and installing the project into it.
# shellcheck shell=bash
set -euo pipefail

ROOT=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${ETADS_VENV:-$ROOT/.venv}

die() { echo "$(basename "$0"): $*" >&2; exit 2; }
say() { echo "== $*" >&2; }
need_value() { [ $# -ge 2 ] && [ -n "$2" ] || die "$1 needs a value; see --help"; }

[ $((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1])) -ge 404 ] || die "bash $BASH_VERSION: bash 4.4 or newer is needed (macOS: brew install bash)"

# Ctrl-C ends a script even if the running command handles the signal in another way.
trap 'exit 130' INT
# Report commands that fail silently. Status 2 means that the command has printed an error, and a status above 128 means that it was
# ended by a signal.
trap 'status=$?; [ $status -eq 2 ] || [ $status -gt 128 ] || echo "$(basename "$0"): line $LINENO failed (status $status)" >&2' ERR

# usage: print the help text of the calling script, which is the comment at its beginning.
usage() {
    sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$0"
    echo "  --version prints the version, --help this text"
    exit 0
}

# parse_options "OPTIONS" "$@": read options into variables: --pg-data VALUE sets pg_data. In OPTIONS, --gpu! is an option without
# a value, which sets gpu=yes, and --input+ can be repeated, and adds to an array. With --, words after -- go to the array more; with
# ..., so do all other words except --.
parse_options() {
    local offered=" $1 " variable
    more=()
    shift
    while [ $# -gt 0 ]; do
        variable=${1#--} variable=${variable//-/_}
        case $1 in -h | --help) usage ;; esac
        case $offered in
            *" $1! "*) printf -v "$variable" yes; shift; continue ;;
            *" $1+ "*) need_value "$@"; eval "$variable+=(\"\$2\")" ;;
            *" $1 "*) [ "$1" != -- ] || { more=("${@:2}"); return 0; }; need_value "$@"; printf -v "$variable" %s "$2" ;;
            *" ... "*) [ "$1" = -- ] || more+=("$1"); shift; continue ;;
            *) die "unknown option $1; see --help" ;;
        esac
        shift 2
    done
}

# supervise COMMAND...: run the command, and end it if this script is ended or killed. Bash alone would leave the command running.
supervise() {
    local child status=0 parent=${BASHPID:-$$} signal
    python3 -IS "$ROOT/fairseq_etads/pipeline/children.py" "$parent" "$@" <&0 &  # without <&0, bash would not pass on standard input
    child=$!
    # shellcheck disable=SC2064  # the process id must be expanded now
    for signal in INT TERM HUP; do trap "end_by $signal $child" "$signal"; done
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

# Add the project's commands to PATH, from the active environment or otherwise from VENV.
use_environment() {
    if ! command -v etads-prepare >/dev/null; then
        [ -x "$VENV/bin/etads-prepare" ] || die "fairseq-etads is not installed; run scripts/install.sh"
        export PATH="$VENV/bin:$PATH"
    fi
    export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
}

# prepare_corpus KIND [options]: run etads-corpus with --out DIR in place of --prepare DIR, as the scripts prepare_*.sh call it.
prepare_corpus() {
    case " $* " in *" --help "* | *" -h "*) (usage); echo "  all options: etads corpus $1 --help"; exit ;; esac
    use_environment
    exec etads-corpus "${@/#--out/--prepare}"
}

case " $* " in *" --version "*) echo "$(basename "$0") $(python3 "$ROOT/fairseq_etads/version.py")"; exit ;; esac
