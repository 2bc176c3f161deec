#!/usr/bin/env bash
# Measure the effect of the copy attention's continuation features (--pointer-continue) on long documents: etads on SumPubMed.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" sumpubmed_continue "$@"
