#!/usr/bin/env bash
# Measure the effect of a pointer with a small vocabulary: word-level etads on the Debian sample corpus, with and without a pointer.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce debian_pointer --out "$ROOT/runs/debian_pointer" "$@"
