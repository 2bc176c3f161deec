#!/usr/bin/env bash
# Prepare parallel text, and train a model on it: etads-train in the environment of this repository.
#
#   scripts/train.sh --text PATH --out DIR [options] [-- options of fairseq-train]

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_environment
exec etads-train "$@"
