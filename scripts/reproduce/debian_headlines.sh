#!/usr/bin/env bash
# Compare small versions of the systems in the papers' Gigaword tables on the Debian sample corpus, with equal data and steps.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" debian_headlines "$@"
