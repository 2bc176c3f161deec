#!/usr/bin/env bash
# RAS-LSTM and RAS-Elman (Chopra, Auli, Rush 2016): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" ras_gigaword "$@"
