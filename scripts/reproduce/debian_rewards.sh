#!/usr/bin/env bash
# Measure the gains and costs of training with rewards: etads on Debian synopses, before and after 1,000 self-critical updates.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" debian_rewards "$@"
