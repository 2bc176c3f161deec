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

venv="" python="" gpu_simulated="" types=""
parse_options "--venv --python --gpu-simulated! --" "$@"
VENV=${venv:-$VENV}
"$ROOT/scripts/install.sh" --dev --venv "$VENV" ${python:+--python "$python"}
export PATH="$VENV/bin:$PATH" PYTHONWARNINGS=${PYTHONWARNINGS:-ignore} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cd "$ROOT"
if [ -n "$gpu_simulated" ]; then
    export PYTEST_PLUGINS=pretended_gpu PYTHONPATH=$ROOT/tests/pretended${PYTHONPATH:+:$PYTHONPATH}
    more=(tests/gpu tests/e2e/test_pretended_gpu.py "${more[@]}")
else
    ruff check .
    ruff format --check .
    { mypy && mypy --config-file scripts/mypy.ini; } & types=$!  # one core would be idle otherwise
fi
# There is one process per core. All tests in a file run in the same process, because they share trained fixtures.
pytest -n auto --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 5 "${more[@]}"
[ -z "$types" ] || wait "$types"
