#!/usr/bin/env bash
# Measure the effect of rewards on an extractor with a rewriter: Chen and Bansal's system, small, on long documents.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" sumpubmed_rewrite "$@"
