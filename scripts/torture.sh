#!/usr/bin/env bash
# Disturb every long command in many ways, and count what becomes of it; docs/experiments.md shows the table.
#
#   scripts/torture.sh [options]
#
#   --seed N         of the corpus, the moments and the places (default: 1)
#   --kills N        moments at which each command is killed and run again (default: 50)
#   --places N       places of each file that are damaged in each way (default: 3)
#   --moments N      moments at which a file of each command vanishes or changes (default: 12)
#   --only KIND ...  some of the faults: kill, damage, vanish, disk, together, options, inputs
#   --commands NAME ...   some of the commands, for example train.sh
#   --sample N       only so many trials of each kind of fault, drawn at random: the short form
#   --jobs N         trials at a time (default: 2)
#   --examples N     inputs that hypothesis makes up for each reader (default: 2000; 0: leave that out)
#
# Ends with status 1 if a command was silently different, hung, or ended without words; stderr says where. A full disk and a
# read-only folder are file systems of their own where the system allows mounting them (unshare -rm), else a limit on sizes.

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
PYTHONPATH="$ROOT/tests${PYTHONPATH:+:$PYTHONPATH}" supervise ${namespace[@]+"${namespace[@]}"} python -m torture ${more[@]+"${more[@]}"} || status=$?
readers=$ROOT/tests/unit/preprocess/test_reader_inputs.py
if [ "$examples" -gt 0 ] && [ -f "$readers" ]; then
    say "$examples made-up inputs for each reader"
    (cd "$ROOT" && ETADS_EXAMPLES=$examples pytest -q "$readers") >&2 || status=1
fi
exit "$status"
