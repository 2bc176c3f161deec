#!/usr/bin/env bash
# ETADS on SciTLDR (Cachola et al. 2020): scientific papers, each summarised in a sentence.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce scitldr --out "$ROOT/runs/scitldr" "$@"
