#!/usr/bin/env bash
# Disturb every long command in many ways, and count the outcomes. docs/experiments.md contains a table of the outcomes.
#
#   scripts/torture.sh [options]
#
#   --seed N         random seed for the corpus and for drawing the moments and places of faults (default: 1)
#   --kills N        number of moments at which each command is killed and run again (default: 50)
#   --places N       number of places at which each file is damaged, for each kind of damage (default: 3)
#   --moments N      number of moments at which a file of each command vanishes or changes (default: 12)
#   --only KIND ...  test only these kinds of faults: kill, damage, vanish, disk, together, options, inputs
#   --commands NAME ...   test only these commands, such as train.sh
#   --sample N       maximum number of randomly chosen trials for each kind of fault, for a short run
#   --jobs N         number of trials that run in parallel (default: 2)
#   --examples N     number of inputs that hypothesis generates for each reader; 0 omits this test (default: 2000)
#
# The exit status is 1 if a command silently produced a different result, hung, or ended without a message; the details
# are printed to stderr. A full disk and a read-only folder are simulated with mounted file systems where the system
# permits it (unshare -rm), and otherwise with a limit on file sizes.

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
