#!/usr/bin/env bash
# Convert Gigaword headlines, created by NAMAS or ready-made, to text in DIR/text and binarised data in
# DIR/prepared/bin.
#
#   scripts/prepare_gigaword.sh --data DIR --out DIR [options] [-- options of etads-prepare]
#
#   --data DIR   folder containing train.article.txt, train.title.txt, valid.article.filter.txt, ..., input.txt and
#                task1_ref0.txt, plain or compressed; the files can also be in its folders train/ and Giga/
#   --out DIR    output folder for text/ and prepared/
#   --rare N     replace words with <unk> in the text if they occur fewer than N times (default: 5, as in NAMAS;
#                ready-made text is left unchanged). 0 keeps all words; use it for a pointer, which can copy unknown
#                words, or for vocabularies larger than the 119,505 and 68,885 words that otherwise remain
#   --filter     filter the training and validation pairs as in NAMAS
#   --jobs N     number of processes (default: all processors)
#   and the options listed by "etads-corpus gigaword --help"
#
# The text is already tokenised. By default, a single dictionary contains 50,000 words and a copy tail. To build the
# dictionaries of the gated encoder-sharing Transformer and of Nallapati et al.:
#
#   -- --separate-dictionaries --source-size 90000 --target-size 68883       (119505 and 68885)
#
# To build the single dictionary that a pointer requires, with 68,885 words that can be generated and all others copied:
#
#   --rare 0 -- --size 119505 --target-size 68885
#
# To continue after an interruption, run the script again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus gigaword "$@"
