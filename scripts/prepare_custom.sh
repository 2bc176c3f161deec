#!/usr/bin/env bash
# Convert your own corpus to binarised data: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_custom.sh --input FILE [--split 90/5/5] --out DIR [options] [-- options of etads-prepare]
#   scripts/prepare_custom.sh --train FILE --valid FILE --test FILE --out DIR [options] [-- options of etads-prepare]
#   scripts/prepare_custom.sh --kind parallel --train DOCUMENTS SUMMARIES --valid ... --test ... --out DIR [...]
#
#   --input FILE  one table for all splits, from which --split takes shares by a hash of the document; - is standard input
#   --kind KIND   table (default): .jsonl, .csv, .tsv or .parquet with a column of documents and one of summaries
#                 parallel: plain text, one document or summary per line; several files of summaries are references
#   --source-column NAME, --target-column NAME   of a table, unless they have usual names (article and highlights, ...)
#   --out DIR     output folder for text/ (<q> between sentences) and prepared/
#   --jobs N      number of processes (default: all processors)
#   and the options of "etads-corpus table --help" and "etads-corpus parallel --help"
#
# By default, text is split into 8,000 BPE merges of lower-case Moses words. Options after -- override this, for example
# for Chinese:
#
#   -- --tokens word --words characters --size 8000
#
# Run it again to continue after an interruption.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
kind=table more=()
while [ $# -gt 0 ]; do
    case $1 in
        --kind) need_value "$@"; kind=$2; shift 2 ;;
        --) more+=("$@"); break ;;
        *) more+=("$1"); shift ;;
    esac
done
need_choice --kind "$kind" table parallel
prepare_corpus "$kind" "${more[@]}"
