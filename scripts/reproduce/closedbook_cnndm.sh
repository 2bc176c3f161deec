#!/usr/bin/env bash
# Jiang and Bansal 2018 on CNN/Daily Mail: training with a closed-book decoder next to See et al.'s, and self-critical training.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce closedbook_cnndm --out "$ROOT/runs/closedbook_cnndm" "$@"
