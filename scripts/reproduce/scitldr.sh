#!/usr/bin/env bash
# ETADS on SciTLDR (Cachola et al. 2020): scientific papers, each summarised in a sentence.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" scitldr "$@"
