#!/usr/bin/env bash
# Convert Debian package descriptions and their synopses to binarised data: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_debian.sh --out DIR [--sample] [options of etads-debian] [-- options of etads-prepare]
#
#   --out DIR    output folder for text/ and prepared/
#   --sample     the 13,000 pairs that come with the project (default: all 60,000, from APT's lists)
#   --jobs N     number of processes (default: all processors)
#   and the options of "etads-debian --help"
#
# By default, text is split into 8,000 BPE merges of lower-case Moses words. Options after -- override this.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus debian "$@"
