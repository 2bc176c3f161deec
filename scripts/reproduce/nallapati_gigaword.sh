#!/usr/bin/env bash
# Nallapati et al. 2016, Tables 1 and 2, one row per run: headlines of Gigaword (F1, copy rate) and of DUC (recall).

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce nallapati_gigaword --out "$ROOT/runs/nallapati_gigaword" "$@"
