#!/usr/bin/env bash
# ETADS's Tables 2 (systems), 4 (depths), 5 and 6 (which layers have a mechanism) on CNN/Daily Mail.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce etads_cnndm --out "$ROOT/runs/etads_cnndm" "$@"
