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

# usage TEXT: the comment block at the head of the calling script is its help.
usage() {
    sed -n '2,/^$/{s/^# \{0,1\}//p}' "$0"
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

# Put the project's commands on PATH: those of the environment that is active, else those of VENV.
use_environment() {
    if ! command -v etads-prepare >/dev/null; then
        [ -x "$VENV/bin/etads-prepare" ] || die "fairseq-etads is not installed; run scripts/install.sh"
        export PATH="$VENV/bin:$PATH"
    fi
    export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
}

# json_options FILE KEY: the object under KEY as command-line options, one word a line.
json_options() {
    python - "$1" "$2" <<'PYTHON'
import json, sys
for key, value in json.load(open(sys.argv[1], encoding="utf-8"))[sys.argv[2]].items():
    print(f"--{key}")
    if value is not True:
        print(value)
PYTHON
}

# normalise_like PREPARED: white space and case of standard input as etads-prepare treated them.
normalise_like() {
    python -c '
import json, sys
from etads_preprocess.prepare import normalise
lowercase = json.load(open(sys.argv[1], encoding="utf-8"))["settings"]["lowercase"]
for line in open(sys.stdin.fileno(), encoding="utf-8", errors="replace", newline="\n"):
    print(normalise(line, lowercase))
' "$1/prepare.json"
}
