#!/usr/bin/env bash
# Convert Debian package descriptions to DIR/text and binarised data in DIR/prepared/bin: etads corpus debian.
#
#   scripts/prepare_debian.sh --out DIR [--sample] [options] [-- options of etads-prepare]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare_corpus debian "$@"
