#!/usr/bin/env bash
# Bottom-Up (Gehrmann, Deng, Rush 2018) on CNN/Daily Mail: a pointer model that copies only words that a tagger has chosen.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce bottomup_cnndm --out "$ROOT/runs/bottomup_cnndm" "$@"
