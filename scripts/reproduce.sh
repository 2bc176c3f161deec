#!/usr/bin/env bash
# Train, search and score the systems of a paper: etads reproduce, with its results in runs/RECIPE in the repository.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_environment
case ${1-} in "" | -*) exec etads-reproduce "$@" ;; esac
exec etads-reproduce "$1" --out "$ROOT/runs/$1" "${@:2}"
