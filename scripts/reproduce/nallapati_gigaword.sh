#!/usr/bin/env bash
# Nallapati et al. 2016, Tables 1 and 2, one row per run: headlines of Gigaword (F1, copy rate) and of DUC (recall).
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" nallapati_gigaword "$@"
