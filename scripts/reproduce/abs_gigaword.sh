#!/usr/bin/env bash
# ABS and ABS+ (Rush, Chopra, Weston 2015): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce abs_gigaword --out "$ROOT/runs/abs_gigaword" "$@"
