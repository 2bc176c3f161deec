#!/usr/bin/env bash
# Install the project into an environment of its own and run its linters, type checker and tests.
#
#   scripts/test.sh [--venv DIR] [--python PYTHON] [-- options of pytest]
#
#   --venv DIR       default: $ETADS_VENV, or .venv in the repository
#   --python PYTHON  default: python3
#
# For example, only the unit tests:  scripts/test.sh -- tests/unit

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install=(--dev) more=()
while [ $# -gt 0 ]; do
    case $1 in
        --venv) need_value "$@"; VENV=$2; install+=(--venv "$2"); shift 2 ;;
        --python) need_value "$@"; install+=(--python "$2"); shift 2 ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of pytest come after --)" ;;
    esac
done
"$ROOT/scripts/install.sh" "${install[@]}"
export PATH="$VENV/bin:$PATH" PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
cd "$ROOT"
ruff check .
ruff format --check .
mypy
# a process for each core; the tests of a file run in the same process, since they share what their fixtures train
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} pytest -n auto --dist loadfile --durations 40 --durations-min 5 ${more[@]+"${more[@]}"}
