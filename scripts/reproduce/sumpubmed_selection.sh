#!/usr/bin/env bash
# Measure the effect of content selection on long documents: extraction by a word tagger, and ETADS with and without Bottom-Up's mask.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" sumpubmed_selection "$@"
