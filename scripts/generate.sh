#!/usr/bin/env bash
# Summarise with a trained model: a split of its data, or documents from a file. One summary a line, in input order.
#
#   scripts/generate.sh --run DIR --output FILE [options] [-- options of fairseq-generate or fairseq-interactive]
#
#   --run DIR        what scripts/train.sh made
#   --output FILE    where the summaries go
#   --input FILE     raw documents, one a line (default: the test split)
#   --prepared DIR   the prepared data (default: DIR/prepared)
#   --subset NAME    split to summarise: test (default), valid or train
#   --checkpoint F   default: DIR/checkpoints/checkpoint_best.pt
#   --beam N         beam size (default: 5; the ETADS paper: 10)
#   --min-len N, --max-len N   shortest and longest summary, in tokens (default: 1 and 100; the paper: 35 and 100)
#   --lenpen A       length penalty (default: 1; the paper: 0.9 with --length-penalty-type wu)
#   --length-penalty-type avg|wu, --coverage-penalty W, --no-repeat-ngram-size N, --infer-dtype fp32|bf16|int8
#                    see docs/decoding.md (the paper: wu, 1, none; bf16 and int8 are faster on a CPU)
#   --max-tokens N   source tokens in a batch (default: 8000)
#   --cpu            do not use a GPU
#
# The summaries are detokenised words. FILE.log holds all that fairseq printed, scores and tokens included.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run="" prepared="" output="" input="" subset=test checkpoint="" beam=5 min_len=1 max_len=100 lenpen=1 max_tokens=8000 more=()
while [ $# -gt 0 ]; do
    case $1 in
        --run) need_value "$@"; run=$2; shift 2 ;;
        --prepared) need_value "$@"; prepared=$2; shift 2 ;;
        --output) need_value "$@"; output=$2; shift 2 ;;
        --input) need_value "$@"; input=$2; shift 2 ;;
        --subset) need_value "$@"; subset=$2; shift 2 ;;
        --checkpoint) need_value "$@"; checkpoint=$2; shift 2 ;;
        --beam) need_value "$@"; beam=$2; shift 2 ;;
        --min-len) need_value "$@"; min_len=$2; shift 2 ;;
        --max-len) need_value "$@"; max_len=$2; shift 2 ;;
        --lenpen) need_value "$@"; lenpen=$2; shift 2 ;;
        --max-tokens) need_value "$@"; max_tokens=$2; shift 2 ;;
        --length-penalty-type | --coverage-penalty | --no-repeat-ngram-size | --infer-dtype)
            need_value "$@"; more+=("$1" "$2"); shift 2 ;;
        --cpu) more+=(--cpu); shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of fairseq-generate come after --)" ;;
    esac
done
[ -n "$run" ] || die "--run is missing; see --help"
[ -n "$output" ] || die "--output is missing; see --help"
need_choice --subset "$subset" train valid test
need_integer --beam "$beam"
need_integer --min-len "$min_len"
need_integer --max-len "$max_len"
need_integer --max-tokens "$max_tokens"
[[ $lenpen =~ ^-?[0-9]*\.?[0-9]+$ ]] || die "--lenpen $lenpen: choose a number"
[ "$min_len" -le "$max_len" ] || die "--min-len $min_len is more than --max-len $max_len"
prepared=${prepared:-$run/prepared}
[ -f "$prepared/prepare.json" ] || die "--run $run: no prepared data in $prepared; scripts/train.sh makes it"
checkpoint=${checkpoint:-$run/checkpoints/checkpoint_best.pt}
[ -f "$checkpoint" ] || die "--checkpoint $checkpoint: no such file; scripts/train.sh makes it"
[ -z "$input" ] || [ -f "$input" ] || die "--input $input: no such file"
use_environment

mkdir -p "$(dirname "$output")"
log=$output.log
common=("$prepared/bin" --user-dir fairseq_etads --task summarization --path "$checkpoint" --beam "$beam"
    --min-len "$min_len" --max-len-b "$max_len" --lenpen "$lenpen" --max-tokens "$max_tokens")
options=$(inference_options "$prepared") || die "the options for new text cannot be read from --prepared $prepared"
inference=()
while IFS= read -r word; do inference+=("$word"); done <<< "$options"
if [ -n "$input" ]; then
    # fairseq would also end lines at lone carriage returns, and would not say where bad UTF-8 is
    python - "$input" "$output.input" <<'PYTHON' || exit 2
import pathlib, sys
arguments, sys.argv[0] = sys.argv[1:], "etads-prepare"  # a command for which torch and fairseq are not imported
from fairseq_etads.text.files import InputError, read_lines
try:
    with open(arguments[1], "w", encoding="utf-8", newline="\n") as file:
        for line in read_lines(pathlib.Path(arguments[0])):
            file.write(" ".join(line.replace("\0", " ").split()) + "\n")
except (InputError, OSError) as error:
    sys.exit(f"generate.sh: --input {error}")
PYTHON
    wanted=$(wc -l < "$output.input")
    say "summarising $wanted documents of $input"
    supervise fairseq-interactive "${common[@]}" "${inference[@]}" --input "$output.input" --buffer-size 512 ${more[@]+"${more[@]}"} \
        > "$log" 2> "$output.err" || { tail -n 3 "$output.err" >&2; die "fairseq-interactive failed; see $output.err"; }
else
    wanted=$(wc -l < "$prepared/tokens/$subset.source")
    say "summarising the $wanted documents of $subset"
    supervise fairseq-generate "${common[@]}" "${inference[@]}" --gen-subset "$subset" ${more[@]+"${more[@]}"} \
        > "$log" 2> "$output.err" || { tail -n 3 "$output.err" >&2; die "fairseq-generate failed; see $output.err"; }
fi
# "D-7<tab>score<tab>words" is a hypothesis for document 7; documents come by length, and the best hypothesis first
{ grep -aE '^D-[0-9]+' "$log" || true; } | sed 's/^D-//' | LC_ALL=C sort -s -n -t "$(printf '\t')" -k1,1 -u | cut -f3- > "$output.partial"
found=$(wc -l < "$output.partial")
[ "$found" -eq "$wanted" ] || die "$wanted documents but $found summaries; see $log"
mv "$output.partial" "$output"
rm -f "$output.input"
say "summaries: $output"
