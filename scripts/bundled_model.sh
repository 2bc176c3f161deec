#!/usr/bin/env bash
# Train one of the models included in this project, "debian" or "paper", for example for "etads-summarize debian".
#
#   scripts/bundled_model.sh [debian] [options] [-- options of fairseq-train]
#   scripts/bundled_model.sh paper --data DIR [options] [-- options of fairseq-train]
#
#   debian        generates synopses from package descriptions, and is trained on all of Debian's packages. On Debian,
#                 fetch the descriptions first, as root:  apt-get update -o Acquire::Languages=en
#   paper         generates the background section of a biomedical article's abstract from its introduction
#                 (SumPubMed), from the 200 words that an extractor picks (docs/long.md)
#
#   --out DIR     output folder (default: runs/debian or runs/paper in the repository); the model folder is DIR/model
#   --text DIR    text folder written by etads-debian or etads-corpus sumpubmed (default: created from all packages
#                 listed by APT, or from --data)
#   --data DIR    with paper: folder containing SumPubMed, as for etads-corpus sumpubmed
#   --size N      number of words that the model can generate; all others are copied (default: 6000; paper: 8000)
#   --steps N     number of training steps (default: 9000, up to 106 minutes on one core; paper: 9017, about 90)
#   --seed N      random seed (default: 1)

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=debian
case ${1-} in debian | paper) model=$1; shift ;; esac
out=$ROOT/runs/$model text="" data="" size="" steps="" seed=1
parse_options "--out --text --data --size --steps --seed --" "$@"
[ "$model" = paper ] || [ -z "$data" ] || die "--data $data: has no effect without paper"
[ "$model" = debian ] || [ -n "$text$data" ] || die "paper: --data or --text is missing; see --help"
use_environment

if [ "$model" = debian ]; then
    corpus=(etads-debian) decoding=() lengths=()
    training=(--keep-case --truncate-source 150 --size "${size:-6000}" --max-update "${steps:-9000}")
else
    corpus=(etads-corpus sumpubmed --data "$data") decoding=(--no-repeat-ngram-size 3)
    lengths=(--min-len 85 --max-len 128) # of the hypotheses, when the model folder is used without its content model
    training=(--long --text-words ptb --size "${size:-8000}" --max-update "${steps:-9017}")
fi
[ -n "$text" ] || { text=$out/text; supervise "${corpus[@]}" --out "$text"; }
supervise etads-train --text "$text" --out "$out" --recipe base --tokens word "${training[@]}" --processes 1 --cpu \
    -- --seed "$seed" "${more[@]}"
supervise python -m fairseq_etads.pipeline.steps --makes "$out/summaries.txt" \
    --reads "$out"/{checkpoints/checkpoint_best.pt,content.npz,recipe.json} -- \
    etads-summarize "$out" --split test --output "$out/summaries.txt" --restart --device cpu "${decoding[@]}"
etads-rouge "$out/summaries.txt" "$text/test.target" --json "$out/rouge.json"
rm -rf "$out/model"
supervise etads-export "$out" "$out/model" --dtype fp16 --title "$model" --language en "${decoding[@]}" "${lengths[@]}"
# The model card ends like that of the included model, except for its own training.
sed -n '/^## Origin/,$p' "$ROOT/fairseq_etads/bundled/$model/README.md" | sed '/^It is the best checkpoint/,$d' >> "$out/model/README.md"
