#!/usr/bin/env bash
# See, Liu, Manning 2017, Table 1: the pointer-generator as published, without and with coverage, on CNN/Daily Mail.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce see2017_cnndm --out "$ROOT/runs/see2017_cnndm" "$@"
