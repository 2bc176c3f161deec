#!/usr/bin/env bash
# Compare the quickstart's etads with the recurrent pg_coverage at equal training time: ROUGE on Debian synopses, three seeds.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce debian_equal_time --out "$ROOT/runs/debian_equal_time" "$@"
