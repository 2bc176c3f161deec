#!/usr/bin/env bash
# ABS and ABS+ (Rush, Chopra, Weston 2015): headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes).
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" abs_gigaword "$@"
