#!/usr/bin/env bash
# Convert Debian package descriptions and their synopses to text in DIR/text and binarised data in DIR/prepared/bin.
#
#   scripts/prepare_debian.sh --out DIR [--sample] [options of etads-debian] [-- options of etads-prepare]
#
#   --out DIR    output folder for text/ and prepared/
#   --sample     use the 13,000 pairs included in the project (default: all 60,000 pairs, from APT's lists)
#   --jobs N     number of processes (default: all processors)
#   and the options listed by "etads-debian --help"
#
# By default, text is split into lower-case Moses words and then with 8,000 BPE merges. To change this, give options
# after --.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus debian "$@"
