#!/usr/bin/env bash
# Install fairseq-etads and everything it needs, in tested versions, into a virtual environment.
#
#   scripts/install.sh [--venv DIR] [--python PYTHON] [--dev] [--wheel FILE]
#
#   --venv DIR       where (default: $ETADS_VENV, or .venv in the repository); made if it is not there
#   --python PYTHON  which Python makes it (default: python3); 3.9 or newer
#   --dev            also what the tests need
#   --wheel FILE     install this wheel of fairseq-etads (default: build one from the sources here)
#
# Safe to run again: it installs only what is missing or has changed. fairseq is compiled (2 minutes on 2 cores), which
# needs a C++ compiler and Python's headers.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=python3
extras="" wheel=""
while [ $# -gt 0 ]; do
    case $1 in
        --venv) need_value "$@"; VENV=$2; shift 2 ;;
        --python) need_value "$@"; python=$2; shift 2 ;;
        --dev) extras="[dev]"; shift ;;
        --wheel) need_value "$@"; wheel=$2; shift 2 ;;
        -h | --help) usage ;;
        *) die "unknown option $1; see --help" ;;
    esac
done

[ -z "$wheel" ] || [ -f "$wheel" ] || die "--wheel $wheel: no such file"
command -v "$python" >/dev/null || die "--python $python: no such command"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "--python $python: Python 3.9 or newer is needed"
command -v c++ >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler: fairseq is compiled when it is installed (Debian, Ubuntu: apt-get install g++ python3-dev)"

[ -x "$VENV/bin/python" ] || { say "making $VENV"; "$python" -m venv "$VENV"; }
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet)

# from a copy: a build leaves folders where it runs, and would find what an earlier one left
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$ROOT/constraints.txt" ${wheel:+"$wheel"} "$copy"
[ -n "$wheel" ] || tar -C "$ROOT" --exclude=__pycache__ -cf - setup.py pyproject.toml MANIFEST.in README.md LICENSE \
    fairseq_etads preprocess | tar -C "$copy" -xf -
wanted=$("$VENV/bin/python" - "$copy" "$extras" <<'PYTHON'
import hashlib, pathlib, sys
root, digest = pathlib.Path(sys.argv[1]), hashlib.sha256(sys.argv[2].encode())
for path in sorted(path for path in root.rglob("*") if path.is_file()):
    digest.update(f"{path.relative_to(root)}\n{path.stat().st_size}\n".encode() + path.read_bytes())
print(digest.hexdigest())
PYTHON
)
stamp=$VENV/.fairseq-etads
if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    say "up to date: $VENV"
    exit 0
fi

# torch first, and fairseq built against it: in an isolated build pip would fetch a second torch
say "installing torch"
"${pip[@]}" install -c "$ROOT/constraints.txt" torch numpy cython wheel setuptools
if ! "$VENV/bin/python" -c 'import fairseq' >/dev/null 2>&1; then
    say "compiling fairseq"
    "${pip[@]}" install -c "$ROOT/constraints.txt" --no-build-isolation fairseq-fixed
fi
say "installing fairseq-etads"
[ -n "$wheel" ] || "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$copy" "$copy"
wheel=$(echo "$copy"/*.whl)
"${pip[@]}" install -c "$ROOT/constraints.txt" "$wheel$extras"
# a change of the sources without a change of version would not be installed otherwise
"${pip[@]}" install --no-deps --force-reinstall "$wheel"
echo "$wanted" > "$stamp"
