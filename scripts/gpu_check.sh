#!/usr/bin/env bash
# Run the GPU tests on this machine, time training steps and searches, and write a report that you can send us.
#
#   scripts/gpu_check.sh [--out FILE] [--pretended]
#
#   --out FILE    output file for the JSON report (default: gpu_check.json)
#   --pretended   use the simulated GPU in tests/pretended, which requires g++ but no GPU; the measured times are
#                 meaningless
#
# The script takes about ten minutes. The exit status is 0 if all tests passed, otherwise 1; the report is written in
# both cases.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=gpu_check.json
launcher=()
while [ $# -gt 0 ]; do
    case $1 in
        --out) need_value "$@"; out=$2; shift 2 ;;
        --pretended) launcher=("$ROOT/tests/pretended/run_pretending.py"); shift ;;
        --version) number_of_version; exit ;;
        -h | --help) usage ;;
        *) die "unknown option $1; see --help" ;;
    esac
done
out=$(cd "$(dirname "$out")" && pwd)/$(basename "$out")
[ ! -x "$VENV/bin/python" ] || export PATH="$VENV/bin:$PATH"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
cd "$ROOT"
supervise python "${launcher[@]}" "$ROOT/scripts/gpu_check.py" "$out"
