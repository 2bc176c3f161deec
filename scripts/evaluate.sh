#!/usr/bin/env bash
# Score summaries, optionally compare them with the first words of the documents as a baseline, and show a few examples.
#
#   scripts/evaluate.sh --summaries FILE --references FILE [--documents FILE] [options] [-- options of etads-rouge]
#
#   --summaries FILE   file written by etads-summarize, with one summary per line; give the option several times to
#                      compare systems
#   --references FILE  file containing one reference summary per line
#   --documents FILE   file containing one document per line; also score the first N words of each document, and show
#                      the documents of the examples
#   --lead N           number of words in the baseline (default: 8)
#   --compare          test whether the first --summaries file is better than each of the others (with etads-compare)
#   --analyse          report the copied, new and repeated n-grams of all systems (with etads-analyse); requires
#                      --documents
#   --show N           number of examples to print, with document, reference and summary (default: 3)

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

summaries=() references="" documents="" lead="" show=3 compare="" analyse="" more=()
while [ $# -gt 0 ]; do
    case $1 in
        --summaries) need_value "$@"; summaries+=("$2"); shift 2 ;;
        --references) need_value "$@"; references=$2; shift 2 ;;
        --documents) need_value "$@"; documents=$2; shift 2 ;;
        --lead) need_value "$@"; lead=$2; shift 2 ;;
        --show) need_value "$@"; show=$2; shift 2 ;;
        --compare) compare=1; shift ;;
        --analyse) analyse=1; shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of etads-rouge come after --)" ;;
    esac
done
[ ${#summaries[@]} -gt 0 ] || die "--summaries is missing; see --help"
[ -n "$references" ] || die "--references is missing; see --help"
[ -z "$lead" ] || [ -n "$documents" ] || die "--lead $lead: needs --documents, because it scores their first words"
lead=${lead:-8}
need_integer --lead "$lead"
[[ $show =~ ^[0-9]+$ ]] || die "--show $show: choose a whole number"
show=$((10#$show))
for file in "${summaries[@]}" "$references" ${documents:+"$documents"}; do
    [ -f "$file" ] || die "$file: no such file"
done
[ -z "$compare" ] || [ ${#summaries[@]} -gt 1 ] || die "--compare needs --summaries more than once"
[ -z "$analyse" ] || [ -n "$documents" ] || die "--analyse needs --documents"
# Each command would replace the file of the one before.
calls=$((${#summaries[@]} + ${documents:+1} + ${compare:+${#summaries[@]} - 1} + ${analyse:+1} + 0))
for word in "${more[@]}"; do
    case $word in
        --json | --json=* | --per-example | --per-example=*)
            [ "$calls" = 1 ] || die "$word: would be written by $calls commands; give one --summaries without --documents" ;;
    esac
done
use_environment

score() {
    etads-rouge "$1" "$references" "${more[@]}"
    echo
}
# write_leads FILE: write the first words of each document, as selected by etads-analyse --lead-words.
write_leads() {
    python - "$documents" "$lead" "$1" "${more[@]}" <<'PYTHON'
import argparse, pathlib, sys
from fairseq_etads.evaluation.analysis import take_lead_words
from fairseq_etads.commands.scoring_options import add_scoring_options
from fairseq_etads.evaluation.summaries import read_lines, split_summary_into_sentences
documents, lead, out, *more = sys.argv[1:]
parser = argparse.ArgumentParser(add_help=False)
add_scoring_options(parser, 1)
mark = parser.parse_known_args(more)[0].sentence_mark
leads = (take_lead_words(split_summary_into_sentences(line, mark), int(lead)) for line in read_lines(documents))
pathlib.Path(out).write_text("".join(f" {mark} ".join(sentences) + "\n" for sentences in leads), encoding="utf-8")
PYTHON
}
# name_leads: replace the name of the temporary file in the output of etads-rouge.
name_leads() {
    local row
    while IFS= read -r row; do
        case $row in "hypothesis: $scratch/"*) row="hypothesis: first $lead words of $documents" ;; esac
        printf '%s\n' "$row"
    done
}
for file in "${summaries[@]}"; do score "$file"; done
if [ -n "$documents" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    write_leads "$scratch/first-$lead-words.txt"
    score "$scratch/first-$lead-words.txt" | name_leads
fi
if [ -n "$compare" ]; then
    for file in "${summaries[@]:1}"; do
        etads-compare "${summaries[0]}" "$file" "$references" "${more[@]}"
        echo
    done
fi
if [ -n "$analyse" ]; then
    systems=()
    # A name ends at the first "=", so names cannot contain "=".
    for file in "${summaries[@]}"; do systems+=(--system "${file//=/:}=$file"); done
    etads-analyse --source "$documents" --reference "$references" "${systems[@]}" --lead-words "$lead" --oracle 3 \
        "${more[@]}"
    echo
fi
pairs=$(grep -c "" "$references") || true  # also counts a last line without a line break
[ "$show" -le "$pairs" ] || show=$pairs
for ((line = 1; line <= show; line++)); do
    if [ -n "$documents" ]; then
        document=$(sed -n "${line}p" "$documents")
        printf 'document   %s\n' "${document:0:300}"
    fi
    printf 'reference  %s\n' "$(sed -n "${line}p" "$references")"
    for file in "${summaries[@]}"; do
        printf 'summary    %s   (%s)\n' "$(sed -n "${line}p" "$file")" "$(basename "$file")"
    done
    echo
done
