#!/usr/bin/env bash
# Nallapati et al. 2016, Table 3: CNN/Daily Mail with and without hierarchical and temporal attention; and See et al. 2017.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" nallapati_cnndm "$@"
