#!/usr/bin/env bash
# The Aggregation Transformer's Tables 3 (depths) and 4 (m1 to m7) on CNN/Daily Mail.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" aggregation_cnndm "$@"
