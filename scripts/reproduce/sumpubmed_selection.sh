#!/usr/bin/env bash
# Measure the effect of content selection on long documents: extraction by a word tagger, and ETADS with and without Bottom-Up's mask.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce sumpubmed_selection --out "$ROOT/runs/sumpubmed_selection" "$@"
