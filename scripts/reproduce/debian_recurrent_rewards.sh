#!/usr/bin/env bash
# Measure the gains and costs of a closed-book decoder and of rewards: pg_coverage on Debian synopses, and models that continue its training.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" debian_recurrent_rewards "$@"
