#!/usr/bin/env bash
# Install fairseq-etads and everything it needs, in tested versions, into a virtual environment.
#
#   scripts/install.sh [--venv DIR] [--python PYTHON] [--dev]
#
#   --venv DIR       where (default: $ETADS_VENV, or .venv in the repository); made if it is not there
#   --python PYTHON  which Python makes it (default: python3); 3.9 or newer
#   --dev            also what the tests need
#
# Safe to run again: it installs only what is missing or has changed. fairseq is compiled (2 minutes on 2 cores), which
# needs a C++ compiler and Python's headers.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=python3
extras=""
while [ $# -gt 0 ]; do
    case $1 in
        --venv) need_value "$@"; VENV=$2; shift 2 ;;
        --python) need_value "$@"; python=$2; shift 2 ;;
        --dev) extras="[dev]"; shift ;;
        -h | --help) usage ;;
        *) die "unknown option $1; see --help" ;;
    esac
done

command -v "$python" >/dev/null || die "--python $python: no such command"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "--python $python: Python 3.9 or newer is needed"
command -v c++ >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler: fairseq is compiled when it is installed (Debian, Ubuntu: apt-get install g++ python3-dev)"

[ -x "$VENV/bin/python" ] || { say "making $VENV"; "$python" -m venv "$VENV"; }
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet)
wanted=$( (cd "$ROOT" && cat setup.py constraints.txt && find fairseq_etads preprocess -type f ! -name '*.pyc' -print0 |
    sort -z | xargs -0 cat; echo "$extras") | "$VENV/bin/python" -c 'import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
stamp=$VENV/.fairseq-etads
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    say "up to date: $VENV"
    exit 0
fi

# torch first, and fairseq built against it: in an isolated build pip would fetch a second torch
say "installing torch"
"${pip[@]}" install -c "$ROOT/constraints.txt" torch numpy cython wheel setuptools
fairseq=$("$VENV/bin/python" -c 'import sys; print("fairseq-fixed" if sys.version_info >= (3, 11) else "fairseq")')
if ! "$VENV/bin/python" -c 'import fairseq' >/dev/null 2>&1; then
    say "compiling $fairseq"
    "${pip[@]}" install -c "$ROOT/constraints.txt" --no-build-isolation "$fairseq"
fi
say "installing fairseq-etads"
"${pip[@]}" install -c "$ROOT/constraints.txt" --no-build-isolation "$ROOT$extras"
# a change of the sources without a change of version would not be installed otherwise
"${pip[@]}" install --no-build-isolation --no-deps --force-reinstall "$ROOT"
echo "$wanted" > "$stamp"
