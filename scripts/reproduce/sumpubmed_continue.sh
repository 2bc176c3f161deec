#!/usr/bin/env bash
# Measure the effect of the copy attention's continuation features (--pointer-continue) on long documents: etads on SumPubMed.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce sumpubmed_continue --out "$ROOT/runs/sumpubmed_continue" "$@"
