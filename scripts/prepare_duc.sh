#!/usr/bin/env bash
# Convert task 1 of DUC-2003 or DUC-2004 to a test set for a Gigaword headline model: text in DIR/text and binarised
# data in DIR/prepared/bin.
#
#   scripts/prepare_duc.sh --docs DIR --models DIR --like PREPARED --out DIR [options]
#   scripts/prepare_duc.sh --data DIR --like PREPARED --out DIR [options]
#
#   --docs DIR       folder of SGML articles, such as d30001t/APW19981016.0240
#   --models DIR     folder of reference headlines, such as D30001.P.10.T.A.APW19981016.0240
#   --data DIR       folder containing input.txt and task1_ref0.txt to task1_ref3.txt, instead of --docs and --models
#   --like PREPARED  prepared data of the model, created by scripts/prepare_gigaword.sh; its dictionaries and subwords
#                    are reused
#   --out DIR        output folder for text/test.source, the references text/test.target, test.target.1, ..., and
#                    prepared/
#   --jobs N         number of processes (default: all processors)
#   and the options listed by "etads-corpus duc --help"
#
# Articles are processed as for Gigaword: they are split into lower-case Treebank words, and digits are replaced with #.
# Only the first sentence is kept, or the first two sentences if the first has fewer than 130 characters.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case " $* " in *" --help "* | *" -h "*) usage ;; esac
like=() more=()
while [ $# -gt 0 ]; do
    case $1 in
        --like) need_value "$@"; like=(--like "$2"); shift 2 ;;
        *) more+=("$1"); shift ;;
    esac
done
[ ${#like[@]} -gt 0 ] || die "--like is missing; see --help"
case " ${more[*]} " in *" --data "*) ;; *) more=(--as-gigaword "${more[@]}") ;; esac  # --data already contains such text
prepare_corpus duc --source-sentences 1 --short-lead 130 "${more[@]}" -- "${like[@]}"
