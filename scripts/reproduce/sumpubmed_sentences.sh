#!/usr/bin/env bash
# Measure the effect of sentence selection on long documents: an extractor, and See et al.'s model with a built-in one, in two forms.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" sumpubmed_sentences "$@"
