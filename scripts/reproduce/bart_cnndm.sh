#!/usr/bin/env bash
# Fine-tune BART, and BART with ETADS's mechanisms, on CNN/Daily Mail as in fairseq's README.summarization.md.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce bart_cnndm --out "$ROOT/runs/bart_cnndm" "$@"
