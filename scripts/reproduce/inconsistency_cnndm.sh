#!/usr/bin/env bash
# Hsu et al. 2018 on CNN/Daily Mail: an extractor and an abstractor, trained separately and then jointly with the inconsistency loss.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" inconsistency_cnndm "$@"
