#!/usr/bin/env bash
# Convert the .story files of CNN/Daily Mail to text in DIR/text and binarised data in DIR/prepared/bin.
#
#   scripts/prepare_cnndm.sh --stories DIR [DIR ...] --urls DIR --out DIR [options] [-- options of etads-prepare]
#
#   --stories DIR ...  folders cnn/stories and dailymail/stories, as created by Hermann et al. (2015); anonymised
#                      stories are also accepted
#   --urls DIR         folder containing all_train.txt, all_val.txt and all_test.txt (from See et al.'s repository)
#   --out DIR          output folder for text/ (summaries with <q> between sentences) and prepared/
#   --expect any       accept numbers of documents other than 287,226 (or 287,113) / 13,368 / 11,490
#   --jobs N           number of processes (default: all processors)
#   and the options listed by "etads-corpus cnndm --help"
#
# By default, text is split into lower-case Penn Treebank words, and a single dictionary contains 50,000 words and a
# copy tail. To change this, give options after --, for example:
#
#   -- --tokens sentencepiece --words raw --size 32000       -- --source-sentence-marks --factors pos ner tf idf \
#                                                               --spacy-model en_core_web_sm
#   -- --size 150000 --target-size 60000             (Nallapati et al.: 60,000 of the 150,000 words can be generated)
#
# To continue after an interruption, run the script again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
prepare_corpus cnndm "$@"
