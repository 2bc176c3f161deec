#!/usr/bin/env bash
# The gated encoder-sharing Transformer's Tables 2 and 3: headlines of Gigaword (F1), and of DUC-2004 (recall at 75 bytes).

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce gated_gigaword --out "$ROOT/runs/gated_gigaword" "$@"
