#!/usr/bin/env bash
# CNN/Daily Mail from its .story files to a binarised directory: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_cnndm.sh --stories DIR [DIR ...] --urls DIR --out DIR [options] [-- options of etads-prepare]
#
#   --stories DIR ...  cnn/stories and dailymail/stories, as Hermann et al. (2015) made them; also the anonymised ones
#   --urls DIR         all_train.txt, all_val.txt and all_test.txt (from See et al.'s repository)
#   --out DIR          gets text/ (summaries with <q> between sentences) and prepared/
#   --expect any       do not insist on 287,226 (or 287,113) / 13,368 / 11,490 documents
#   --jobs N           processes (default: all processors)
#   and what "etads-corpus cnndm --help" lists
#
# Words are those of the Penn Treebank in lower case, 50,000 of them in one dictionary with a copy tail. Whatever stands
# after -- overrides that, for example:
#
#   -- --tokens sentencepiece --words raw --size 32000       -- --source-sentence-marks --factors pos ner tf idf \
#                                                               --spacy-model en_core_web_sm
#   -- --size 150000 --target-size 60000                     (Nallapati et al.: 60,000 of the 150,000 words can be generated)
#
# Run it again to continue after an interruption.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus cnndm "--tokens word --words ptb --size 50000" "$@"
