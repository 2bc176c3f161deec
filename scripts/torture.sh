#!/usr/bin/env bash
# Disturb every long command in many ways, and count the outcomes; docs/experiments.md shows the table.
#
#   scripts/torture.sh [options]
#
#   --seed N         of the corpus, the moments and the places (default: 1)
#   --kills N        moments at which each command is killed and run again (default: 50)
#   --places N       places of each file that are damaged in each way (default: 3)
#   --moments N      moments at which a file of each command vanishes or changes (default: 12)
#   --only KIND ...  some of the faults: kill, damage, vanish, disk, together, options, inputs
#   --commands NAME ...   some of the commands, for example train.sh
#   --sample N       at most N random trials of each kind of fault, for a short run
#   --jobs N         trials at a time (default: 2)
#   --examples N     inputs that hypothesis generates for each reader (default: 2000; 0: leave that out)
#
# The exit status is 1 if a command silently gave a different result, hung, or ended without a message; stderr shows where. A full
# disk and a read-only folder are simulated by mounted file systems where the system allows it (unshare -rm), otherwise by a limit
# on file sizes.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

examples=2000 more=()
while [ $# -gt 0 ]; do
    case $1 in
        --examples) need_value "$@"; examples=$2; shift 2 ;;
        -h | --help) usage ;;
        *) more+=("$1"); shift ;;
    esac
done
[[ $examples =~ ^[0-9]+$ ]] || die "--examples $examples: choose a whole number"
use_environment

namespace=()
if unshare -rm true 2>/dev/null; then namespace=(unshare -rm); fi
status=0
PYTHONPATH="$ROOT/tests${PYTHONPATH:+:$PYTHONPATH}" supervise "${namespace[@]}" python -m torture "${more[@]}" || status=$?
readers=$ROOT/tests/unit/preprocess/test_reader_inputs.py
if [ "$examples" -gt 0 ] && [ -f "$readers" ]; then
    say "$examples generated inputs for each reader"
    (cd "$ROOT" && ETADS_EXAMPLES=$examples pytest -q "$readers") >&2 || status=1
fi
exit "$status"
