#!/usr/bin/env bash
# Install the project into its own environment, and run the linters, the type checker and the tests.
#
#   scripts/test.sh [--venv DIR] [--python PYTHON] [--quick [--base COMMIT]] [-- options of pytest]
#
#   --venv DIR       folder of the environment (default: $ETADS_VENV, or .venv in the repository)
#   --python PYTHON  Python interpreter for the environment (default: python3)
#   --quick          run the linters and the unit tests that are most closely related to the changed code, for about 90
#                    seconds. If nothing has changed, run a small selection of the tests (see scripts/quick_tests.py).
#                    Tests that do not fit into this time are skipped, and their number is reported.
#   --base COMMIT    with --quick: test the changes since this commit (default: HEAD, that is, uncommitted changes)
#
# For example, run only the unit tests:  scripts/test.sh -- tests/unit

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

install=(--dev) more=() quick="" base=""
while [ $# -gt 0 ]; do
    case $1 in
        --venv) need_value "$@"; VENV=$2; install+=(--venv "$2"); shift 2 ;;
        --python) need_value "$@"; install+=(--python "$2"); shift 2 ;;
        --quick) quick=1; shift ;;
        --base) need_value "$@"; base=$2; shift 2 ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of pytest come after --)" ;;
    esac
done
[ -z "$base" ] || [ -n "$quick" ] || die "--base $base has no effect without --quick"
"$ROOT/scripts/install.sh" "${install[@]}"
export PATH="$VENV/bin:$PATH" PYTHONWARNINGS=${PYTHONWARNINGS:-ignore} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cd "$ROOT"
ruff check .
ruff format --check .
python scripts/wording.py &
wording=$!
# There is one process per core. All tests in a file run in the same process, because they share trained fixtures.
pytest=(pytest -n auto --dist loadfile --no-loadscope-reorder)
if [ -n "$quick" ]; then
    tests=$(python scripts/quick_tests.py ${base:+--base "$base"})
    wait $wording
    # shellcheck disable=SC2086  # paths without spaces, one per line
    "${pytest[@]}" -rs --seconds 65 $tests "${more[@]}"
else
    wait $wording
    mypy
    mypy --config-file scripts/mypy.ini
    "${pytest[@]}" --durations 40 --durations-min 5 "${more[@]}"
fi
