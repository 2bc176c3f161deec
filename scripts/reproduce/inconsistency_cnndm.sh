#!/usr/bin/env bash
# Hsu et al. 2018 on CNN/Daily Mail: an extractor and an abstractor, trained separately and then jointly with the inconsistency loss.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce inconsistency_cnndm --out "$ROOT/runs/inconsistency_cnndm" "$@"
