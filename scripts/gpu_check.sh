#!/usr/bin/env bash
# Time training steps and searches on this machine's GPU, run the GPU tests, and write a report that you can send us.
#
#   scripts/gpu_check.sh [--out FILE] [-- options of pytest]
#
#   --out FILE    output file for the JSON report (default: gpu_check.json)
#
# This takes about ten minutes. The exit status is 0 if all tests passed; the report is written in any case.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in -h | --help) usage ;; esac
[ ! -x "$VENV/bin/python" ] || export PATH="$VENV/bin:$PATH"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
exec python "$ROOT/scripts/gpu_check.py" "$@"
