#!/usr/bin/env bash
# Explicit-Selection (Li, Xiao, Lyu, Wang 2018) on CNN/Daily Mail: sentences are selected for each sentence of a summary.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" explicit_selection_cnndm "$@"
