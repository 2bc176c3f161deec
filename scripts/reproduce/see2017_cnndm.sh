#!/usr/bin/env bash
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" see2017_cnndm "$@"
