#!/usr/bin/env bash
# Compare small versions of the systems in the papers' Gigaword tables on the Debian sample corpus, with equal data and steps.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce debian_headlines --out "$ROOT/runs/debian_headlines" "$@"
