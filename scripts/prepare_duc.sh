#!/usr/bin/env bash
# Convert DUC-2003 or DUC-2004, task 1, to a test set for a model of Gigaword headlines: DIR/text and DIR/prepared/bin.
#
#   scripts/prepare_duc.sh --docs DIR --models DIR --like PREPARED --out DIR [options]
#   scripts/prepare_duc.sh --data DIR --like PREPARED --out DIR [options]
#
#   --docs DIR       SGML articles in folders of sets, d30001t/APW19981016.0240
#   --models DIR     the references, D30001.P.10.T.A.APW19981016.0240
#   --data DIR       instead of both: input.txt and task1_ref0.txt to task1_ref3.txt
#   --like PREPARED  the model's prepared data, made by scripts/prepare_gigaword.sh, with its dictionaries and subwords
#   --out DIR        output folder for text/test.source, the references text/test.target, test.target.1, ..., and prepared/
#   --jobs N         number of processes (default: all processors)
#   and the options of "etads-corpus duc --help"
#
# Articles are processed like Gigaword: lower-case Treebank words, digits as #, and the first sentence, with the second if
# the first has fewer than 130 characters.

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
