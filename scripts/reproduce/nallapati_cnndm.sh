#!/usr/bin/env bash
# Nallapati et al. 2016, Table 3: CNN/Daily Mail with and without hierarchical and temporal attention; and See et al. 2017.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce nallapati_cnndm --out "$ROOT/runs/nallapati_cnndm" "$@"
