#!/usr/bin/env bash
# Compare temporal attention with the plain model on long documents: how often summaries of SumPubMed repeat a bigram.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" sumpubmed_temporal "$@"
