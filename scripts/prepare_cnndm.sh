#!/usr/bin/env bash
# Convert the .story files of CNN/Daily Mail to DIR/text and binarised data in DIR/prepared/bin: etads corpus cnndm.
#
#   scripts/prepare_cnndm.sh --stories DIR [DIR ...] --urls DIR --out DIR [options] [-- options of etads-prepare]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare_corpus cnndm "$@"
