#!/usr/bin/env bash
# Train an extractor, and shorten long documents to their most probable sentences (docs/long.md).
#
#   scripts/shorten.sh --text DIR --out DIR [options] [-- options of fairseq-train for the extractor]

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_environment
exec python -m fairseq_etads.pipeline.long_documents "$@"
