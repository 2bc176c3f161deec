#!/usr/bin/env bash
# RAS-LSTM and RAS-Elman (Chopra, Auli, Rush 2016): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce ras_gigaword --out "$ROOT/runs/ras_gigaword" "$@"
