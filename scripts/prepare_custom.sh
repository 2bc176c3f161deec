#!/usr/bin/env bash
# Convert your own corpus to text in DIR/text and binarised data in DIR/prepared/bin.
#
#   scripts/prepare_custom.sh --input FILE [--split 90/5/5] --out DIR [options] [-- options of etads-prepare]
#   scripts/prepare_custom.sh --train FILE --valid FILE --test FILE --out DIR [options] [-- options of etads-prepare]
#   scripts/prepare_custom.sh --kind parallel --train DOCUMENTS SUMMARIES --valid ... --test ... --out DIR [...]
#
#   --input FILE  table with the pairs of all splits; --split specifies the proportions of the splits, to which pairs
#                 are assigned by a hash of the document; - reads standard input
#   --kind KIND   table (default): .jsonl, .csv, .tsv or .parquet files with a document column and a summary column
#                 parallel: plain text, one document or summary per line; several summary files are treated as several
#                 references
#   --source-column NAME, --target-column NAME   names of the columns of a table, unless they are common names (article
#                 and highlights, ...)
#   --out DIR     output folder for text/ (<q> between sentences) and prepared/
#   --jobs N      number of processes (default: all processors)
#   and the options listed by "etads-corpus table --help" and "etads-corpus parallel --help"
#
# By default, text is split into lower-case Moses words and then with 8,000 BPE merges. To change this, give options
# after --, for example for Chinese:
#
#   -- --tokens word --words characters --size 8000
#
# To continue after an interruption, run the script again.

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
