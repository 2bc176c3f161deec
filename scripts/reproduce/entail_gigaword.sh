#!/usr/bin/env bash
# Entail-s2s (Li, Zhu, Zhang and Zong, COLING 2018) on Gigaword: summarisation with entailment recognition, then rewards for entailment.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" entail_gigaword "$@"
