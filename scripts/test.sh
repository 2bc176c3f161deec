#!/usr/bin/env bash
# Install the project into its own environment, and run the linters, the type checker and the tests.
#
#   scripts/test.sh [--venv DIR] [--python PYTHON] [--gpu-simulated] [-- options of pytest]
#
#   --venv DIR       folder of the environment (default: $ETADS_VENV, or .venv in the repository)
#   --python PYTHON  Python interpreter for the environment (default: python3)
#   --gpu-simulated  run only the tests for GPUs, on a GPU that the CPU simulates (see tests/pretended/pretended_gpu.py)
#
# For example, run only the unit tests:  scripts/test.sh -- tests/unit

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install=(--dev) more=() simulated=""
while [ $# -gt 0 ]; do
    case $1 in
        --venv) need_value "$@"; VENV=$2; install+=(--venv "$2"); shift 2 ;;
        --python) need_value "$@"; install+=(--python "$2"); shift 2 ;;
        --gpu-simulated) simulated=1; shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of pytest come after --)" ;;
    esac
done
"$ROOT/scripts/install.sh" "${install[@]}"
export PATH="$VENV/bin:$PATH" PYTHONWARNINGS=${PYTHONWARNINGS:-ignore} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cd "$ROOT"
if [ -n "$simulated" ]; then
    export PYTEST_PLUGINS=pretended_gpu PYTHONPATH=$ROOT/tests/pretended${PYTHONPATH:+:$PYTHONPATH}
    more=(tests/gpu tests/e2e/test_pretended_gpu.py "${more[@]}")
else
    ruff check .
    ruff format --check .
    mypy
    mypy --config-file scripts/mypy.ini
fi
# There is one process per core. All tests in a file run in the same process, because they share trained fixtures.
pytest -n auto --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 5 "${more[@]}"
