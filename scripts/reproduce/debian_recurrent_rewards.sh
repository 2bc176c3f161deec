#!/usr/bin/env bash
# Measure the gains and costs of a closed-book decoder and of rewards: pg_coverage on Debian synopses, and models that continue its training.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce debian_recurrent_rewards --out "$ROOT/runs/debian_recurrent_rewards" "$@"
