#!/usr/bin/env bash
# Measure the gains and costs of training with rewards: etads on Debian synopses, before and after 1,000 self-critical updates.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce debian_rewards --out "$ROOT/runs/debian_rewards" "$@"
