#!/usr/bin/env bash
# Chen and Bansal 2018 on CNN/Daily Mail: an extractor picks sentences, an abstractor rewrites them, and rewards train the extractor.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" rewrite_cnndm "$@"
