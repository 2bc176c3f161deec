#!/usr/bin/env bash
# Convert Gigaword headlines, made by NAMAS or ready-made, to binarised data: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_gigaword.sh --data DIR --out DIR [options] [-- options of etads-prepare]
#
#   --data DIR   train.article.txt, train.title.txt, valid.article.filter.txt, ..., input.txt, task1_ref0.txt, plain or
#                compressed, in DIR or its folders train/ and Giga/
#   --out DIR    output folder for text/ and prepared/
#   --rare N     words with fewer occurrences become <unk> in the text (default: 5, as in NAMAS; ready-made text is not changed).
#                0 keeps all words: for a pointer, which can copy unknown words, and for vocabularies larger than the
#                119,505 and 68,885 words that otherwise remain
#   --filter     apply NAMAS's filter to the training and validation pairs
#   --jobs N     number of processes (default: all processors)
#   and the options of "etads-corpus gigaword --help"
#
# The text is already tokenised. By default, one dictionary has 50,000 words and a copy tail; for the dictionaries of
# the gated encoder-sharing Transformer and of Nallapati et al.:
#
#   -- --separate-dictionaries --source-size 90000 --target-size 68883       (119505 and 68885)
#
# for one dictionary, as a pointer needs, with 68,885 words that can be generated and all others copied:
#
#   --rare 0 -- --size 119505 --target-size 68885
#
# Run it again to continue after an interruption.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus gigaword "$@"
