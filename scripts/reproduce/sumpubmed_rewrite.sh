#!/usr/bin/env bash
# Measure the effect of rewards on an extractor with a rewriter: Chen and Bansal's system, small, on long documents.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce sumpubmed_rewrite --out "$ROOT/runs/sumpubmed_rewrite" "$@"
