#!/usr/bin/env bash
# Train one of the models included in this project, "debian" or "paper", for example for "etads-summarize debian".
#
#   scripts/bundled_model.sh [debian] [options] [-- options of fairseq-train]
#   scripts/bundled_model.sh paper --data DIR [options] [-- options of fairseq-train]
#
#   debian        generates synopses from package descriptions, and is trained on all of Debian's packages. On Debian,
#                 fetch the descriptions first, as root:  apt-get update -o Acquire::Languages=en
#   paper         generates the background section of a biomedical article's abstract from its introduction (SumPubMed),
#                 and is trained with etads-train --long
#
#   --out DIR     output folder (default: runs/debian or runs/paper in the repository); the model folder is DIR/model
#   --text DIR    text folder written by etads-debian or etads-corpus sumpubmed (default: created from all packages
#                 listed by APT, or from --data)
#   --data DIR    with paper: folder containing SumPubMed in a format that scripts/prepare_sumpubmed.sh accepts
#   --size N      number of words that the model can generate; all others are copied (default: 6000; paper: 8000)
#   --steps N     number of training steps (default: 9000, up to 106 minutes on one core; paper: 9017, about 90)
#   --seed N      random seed (default: 1)
#
# The model debian is trained with --recipe base, without lower-casing the text; a content model chooses among twelve
# hypotheses (docs/decoding.md). The model paper is trained with --recipe base on the 200 words that an extractor picks;
# a content model chooses the sentences of summaries (docs/long.md). The scores on the test split are stored in
# DIR/rouge.json. The script can be interrupted and started again.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=debian
case ${1-} in debian | paper) model=$1; shift ;; esac
out="" text="" data="" size="" steps="" seed=1
read_options "--out --text --data --size --steps --seed --" "$@"
out=${out:-$ROOT/runs/$model}
[ -n "$size" ] || case $model in debian) size=6000 ;; paper) size=8000 ;; esac
[ -n "$steps" ] || case $model in debian) steps=9000 ;; paper) steps=9017 ;; esac
for name in size steps seed; do need_integer "--$name" "${!name}"; done
[ "$model" = paper ] || [ -z "$data" ] || die "--data $data: has no effect without paper"
[ "$model" = debian ] || [ -n "$text" ] || [ -n "$data" ] || die "paper: --data or --text is missing; see --help"
need_folder --out "$out"
use_environment

# train_debian, train_paper: train the model in DIR, and summarise and score the test split. The array DECODING contains options that
# become the defaults in the model folder.
train_debian() {
    DECODING=()  # the defaults come from the training summaries and the content model
    [ -n "$text" ] || { text=$out/text; supervise etads-debian --out "$text"; }
    supervise etads-train --text "$text" --out "$out" --recipe base --tokens word --size "$size" --keep-case \
        --truncate-source 150 --max-update "$steps" --processes 1 --cpu -- --seed "$seed" "${more[@]}"
    summarise_once "$out" "$out/summaries.txt" --cpu
    score_once "$out" "$text"
}

train_paper() {
    DECODING=(--min-len 85 --max-len 128 --no-repeat-ngram-size 3)
    [ -n "$text" ] || { text=$out/text; supervise etads-corpus sumpubmed --data "$data" --out "$text"; }
    supervise etads-train --text "$text" --out "$out" --long --text-words ptb --recipe base --tokens word \
        --size "$size" --max-update "$steps" --processes 1 --cpu -- --seed "$seed" "${more[@]}"
    summarise_once "$out" "$out/summaries.txt" "${DECODING[@]}" --content "$out/shortened/extractor" --cpu
    score_once "$out" "$text"
}

# describe_debian, describe_paper: print the end of the model card.
describe_debian() {
    cat << 'CARD'

## Origin

The texts are the descriptions and synopses of the packages in Debian 12 (bookworm), section main, written by the packages'
maintainers; all of these packages follow the Debian Free Software Guidelines, each under a licence of its own. The split keeps
packages that share texts together. `scripts/bundled_model.sh` of fairseq-etads makes this model. It has learned to write
synopses of software packages, and nothing else.
CARD
}

describe_paper() {
    cat << 'CARD'

## Origin

The texts are SumPubMed (Gupta et al. 2021, MIT licence): the first 400 to 520 words of the introductions of articles in journals of
BioMed Central, and the background sections of their abstracts. 26,284 pairs were used for training, 850 for
validation, 563 for the test. `scripts/bundled_model.sh paper` of fairseq-etads makes this model: an extractor picks up to 200 words
of a document, an ETADS with a pointer rewrites them in twelve ways, and a content model chooses the sentences of the summary from
these hypotheses and from the whole document.

It has learned to write the background of a biomedical article from its introduction, and nothing else. Most sentences of a summary
are the document's own, word for word (`Summary.chosen` tells which), and it may join what does not belong together. It says
nothing about results that are not in the document, and is not medical advice.
Of documents of another kind, it makes sentences in the style of such backgrounds; `Summary.surprisal` and a warning of
`etads-summarize` tell when a document is unlike the articles.
CARD
}

"train_$model"
export_once "$out" "$out/model" "$("describe_$model")" "" --dtype fp16 --title "$model" --language en "${DECODING[@]}"
