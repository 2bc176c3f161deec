#!/usr/bin/env bash
# Convert your own corpus to DIR/text and binarised data in DIR/prepared/bin: etads corpus table, or parallel.
#
#   scripts/prepare_custom.sh --input FILE [--split 90/5/5] --out DIR [options] [-- options of etads-prepare]
#   scripts/prepare_custom.sh --kind parallel --train DOCUMENTS SUMMARIES ... --out DIR [options]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
kind=table words=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in --kind) need_value "$@"; kind=$2; shift ;; *) words+=("$1") ;; esac
    shift
done
prepare_corpus "$kind" "${words[@]}" "$@"
