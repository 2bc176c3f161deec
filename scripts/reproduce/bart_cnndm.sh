#!/usr/bin/env bash
# Fine-tune BART, and BART with ETADS's mechanisms, on CNN/Daily Mail as in fairseq's README.summarization.md.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" bart_cnndm "$@"
