#!/usr/bin/env bash
# ConvS2S (Gehring et al. 2017), section 5.4: headlines of Gigaword (F1) and of DUC-2004 (recall at 75 bytes); and with a pointer.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" convs2s_gigaword "$@"
