#!/usr/bin/env bash
# The gated encoder-sharing Transformer's Tables 2 and 3: headlines of Gigaword (F1), and of DUC-2004 (recall at 75 bytes).
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" gated_gigaword "$@"
