#!/usr/bin/env bash
# Convert Gigaword headlines to DIR/text and binarised data in DIR/prepared/bin: etads corpus gigaword.
#
#   scripts/prepare_gigaword.sh --data DIR --out DIR [options] [-- options of etads-prepare]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare_corpus gigaword "$@"
