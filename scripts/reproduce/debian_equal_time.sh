#!/usr/bin/env bash
# Compare the quickstart's etads with the recurrent pg_coverage at equal training time: ROUGE on Debian synopses, three seeds.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" debian_equal_time "$@"
