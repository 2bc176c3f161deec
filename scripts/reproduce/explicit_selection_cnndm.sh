#!/usr/bin/env bash
# Explicit-Selection (Li, Xiao, Lyu, Wang 2018) on CNN/Daily Mail: sentences are selected for each sentence of a summary.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce explicit_selection_cnndm --out "$ROOT/runs/explicit_selection_cnndm" "$@"
