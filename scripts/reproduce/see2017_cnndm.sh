#!/usr/bin/env bash
# See, Liu, Manning 2017, Table 1: the pointer-generator as published, without and with coverage, on CNN/Daily Mail.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" see2017_cnndm "$@"
