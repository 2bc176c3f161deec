#!/usr/bin/env bash
# Bottom-Up (Gehrmann, Deng, Rush 2018) on CNN/Daily Mail: a pointer model that copies only words that a tagger has chosen.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" bottomup_cnndm "$@"
