#!/usr/bin/env bash
# Measure the effect of sentence selection on long documents: an extractor, and See et al.'s model with a built-in one, in two forms.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce sumpubmed_sentences --out "$ROOT/runs/sumpubmed_sentences" "$@"
