#!/usr/bin/env bash
# Pasunuru and Bansal 2018 on CNN/Daily Mail: See et al.'s model, then alternating rewards for saliency and entailment.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" rougesal_cnndm "$@"
