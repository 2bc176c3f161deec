#!/usr/bin/env bash
# Convert SumPubMed to DIR/text and binarised data in DIR/prepared/bin: etads corpus sumpubmed.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out DIR [options] [-- options of etads-prepare]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare_corpus sumpubmed "$@"
