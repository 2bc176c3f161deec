#!/usr/bin/env bash
# Convert SumPubMed (biomedical articles and their backgrounds) to binarised data: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out DIR [options] [-- options of etads-prepare]
#
#   --data DIR   line_text/ and abstract/ as its repository ships them, or train.jsonl, dev.jsonl and test.jsonl
#   --out DIR    gets text/ (summaries with <q> between sentences) and prepared/
#   --jobs N     processes (default: all processors)
#   and the options of "etads-corpus sumpubmed --help"
#
# By default, lower-case Treebank words, 50,000 of them in one dictionary with a copy tail; options after --
# override this. Run it again to continue after an interruption.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus sumpubmed "$@"
