#!/usr/bin/env bash
# The Aggregation Transformer's Tables 3 (depths) and 4 (m1 to m7) on CNN/Daily Mail.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce aggregation_cnndm --out "$ROOT/runs/aggregation_cnndm" "$@"
