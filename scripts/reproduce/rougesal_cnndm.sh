#!/usr/bin/env bash
# Pasunuru and Bansal 2018 on CNN/Daily Mail: See et al.'s model, then alternating rewards for saliency and entailment.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce rougesal_cnndm --out "$ROOT/runs/rougesal_cnndm" "$@"
