#!/usr/bin/env bash
# Convert SumPubMed (biomedical articles and the background sections of their abstracts) to text in DIR/text and
# binarised data in DIR/prepared/bin.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out DIR [options] [-- options of etads-prepare]
#
#   --data DIR   folder containing line_text/ and abstract/, as in the SumPubMed repository, or train.jsonl, dev.jsonl
#                and test.jsonl
#   --out DIR    output folder for text/ (summaries with <q> between sentences) and prepared/
#   --jobs N     number of processes (default: all processors)
#   and the options listed by "etads-corpus sumpubmed --help"
#
# By default, text is split into lower-case Treebank words, and a single dictionary contains 50,000 words and a copy
# tail. To change this, give options after --. To continue after an interruption, run the script again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus sumpubmed "$@"
