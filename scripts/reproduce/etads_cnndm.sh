#!/usr/bin/env bash
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" etads_cnndm "$@"
