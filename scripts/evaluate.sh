#!/usr/bin/env bash
# Score summaries, optionally beside the first words of the documents, and show examples: etads rouge, compare, analyse.
#
#   scripts/evaluate.sh --summaries FILE --references FILE [--documents FILE] [options] [-- options of etads-rouge]
#
#   --summaries FILE   summaries, one per line; may be repeated for several systems
#   --references FILE  reference summaries, one per line
#   --documents FILE   documents, one per line; also score their first words, and show them in the examples
#   --lead N           number of first words to score (default: 8)
#   --compare          test whether the first --summaries file is better than each of the others (etads-compare)
#   --analyse          report copied, new and repeated n-grams of all systems (etads-analyse); needs --documents
#   --show N           number of examples to print (default: 3)

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

summaries=() references="" documents="" lead="" show=3 compare="" analyse="" baseline=()
parse_options "--summaries+ --references --documents --lead --show --compare! --analyse! --" "$@"
[ ${#summaries[@]} -gt 0 ] && [ -n "$references" ] || die "--summaries or --references is missing; see --help"
[ -z "$compare" ] || [ ${#summaries[@]} -gt 1 ] || die "--compare needs --summaries more than once"
[ -z "$analyse" ] || [ -n "$documents" ] || die "--analyse needs --documents"
case ${#summaries[@]}$analyse" ${more[*]}" in
    1\ *) ;;
    *--json* | *--per-example*) die "--json, --per-example: several commands would write this file; give one --summaries, without --analyse" ;;
esac
use_environment

[ -z "$documents$lead" ] || baseline=(--lead-words "${lead:-8}")
systems=()
for file in "${summaries[@]}"; do
    etads-rouge "$file" "$references" ${documents:+--documents "$documents"} "${baseline[@]}" --show "$show" "${more[@]}"
    echo
    baseline=() systems+=(--system "${file//=/:}=$file")  # a name ends at the first "="
done
for file in ${compare:+"${summaries[@]:1}"}; do
    etads-compare "${summaries[0]}" "$file" "$references" "${more[@]}"
    echo
done
[ -z "$analyse" ] ||
    etads-analyse --source "$documents" --reference "$references" "${systems[@]}" --lead-words "${lead:-8}" --oracle 3 \
        "${more[@]}"
