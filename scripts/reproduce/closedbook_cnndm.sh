#!/usr/bin/env bash
# Jiang and Bansal 2018 on CNN/Daily Mail: training with a closed-book decoder next to See et al.'s, and self-critical training.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" closedbook_cnndm "$@"
