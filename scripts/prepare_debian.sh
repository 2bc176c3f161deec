#!/usr/bin/env bash
# Debian package descriptions and their synopses to a binarised directory: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_debian.sh --out DIR [--sample] [options of etads-debian] [-- options of etads-prepare]
#
#   --out DIR    gets text/ and prepared/
#   --sample     the 13,000 pairs that come with the project (default: all 60,000, from APT's lists)
#   --jobs N     processes (default: all processors)
#   and what "etads-debian --help" lists
#
# 8,000 BPE merges of Moses's words in lower case, unless options after -- say otherwise.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus debian "--tokens bpe --size 8000" "$@"
