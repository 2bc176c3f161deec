#!/usr/bin/env bash
# Entail-s2s (Li, Zhu, Zhang and Zong, COLING 2018) on Gigaword: summarisation with entailment recognition, then rewards for
# entailment.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce entail_gigaword --out "$ROOT/runs/entail_gigaword" "$@"
