#!/usr/bin/env bash
# Compare temporal attention with the plain model on long documents: how often summaries of SumPubMed repeat a bigram.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce sumpubmed_temporal --out "$ROOT/runs/sumpubmed_temporal" "$@"
