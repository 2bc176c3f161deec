#!/usr/bin/env bash
# Chen and Bansal 2018 on CNN/Daily Mail: an extractor picks sentences, an abstractor rewrites them, and rewards train the extractor.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce rewrite_cnndm --out "$ROOT/runs/rewrite_cnndm" "$@"
