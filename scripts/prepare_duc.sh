#!/usr/bin/env bash
# Convert task 1 of DUC-2003 or DUC-2004 to a test set for a Gigaword headline model, in DIR: etads corpus duc.
#
#   scripts/prepare_duc.sh (--docs DIR --models DIR | --data DIR) --like PREPARED --out DIR [options]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prepare_corpus duc "$@"
