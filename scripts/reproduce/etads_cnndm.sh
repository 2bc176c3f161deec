#!/usr/bin/env bash
# ETADS's Tables 2 (systems), 4 (depths), 5 and 6 (which layers have a mechanism) on CNN/Daily Mail.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" etads_cnndm "$@"
