#!/usr/bin/env bash
# Measure the effect of a pointer with a small vocabulary: word-level etads on the Debian sample corpus, with and without a pointer.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" debian_pointer "$@"
