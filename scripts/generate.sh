#!/usr/bin/env bash
# Summarise a split or your own documents: etads summarize with the option names of earlier versions.
#
#   scripts/generate.sh --run DIR --output FILE [options] [-- options of etads-summarize]
#
#   --input PATH     raw documents: a file, a folder, or - for standard input (default: the test split); may be repeated
#   --subset NAME    split to summarise: test (default), valid or train
#   --shortlist FILE   shortlist created by etads-shortlist
#   --content DIR    run folder with a content model (default: --run, if it contains one; none: no content model)
#   --skip-bad       succeed even if documents cannot be read; their summaries are empty
#   --cpu            do not use a GPU
#
# All other options are passed to etads-summarize. For options that only fairseq-generate has, call fairseq-generate.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run="" output="" input=() subset="" shortlist="" content="" skip_bad="" cpu=""
parse_options "--run --output --input+ --subset --shortlist --content --skip-bad! --cpu! ..." "$@"
[ -n "$run" ] && [ -n "$output" ] || die "--run or --output is missing; see --help"
mkdir -p "$(dirname "$output")"
[ -z "$cpu" ] || { export CUDA_VISIBLE_DEVICES=""; more+=(--device cpu); }
[ ${#input[@]} -gt 0 ] || subset=${subset:-test} content=${content:-$([ -f "$run/content.npz" ] && echo "$run" || echo none)}
[ ! -f "$content/probabilities.sentences.train" ] || more+=(--extractor "$content")
case " ${more[*]} " in  # these were the defaults for runs without a recipe; they do not limit chosen sentences
    *" --exact-length"* | *" --max-len-a"*) ;;
    *) [ -f "$run/recipe.json" ] || [ -f "$content/probabilities.sentences.train" ] || more=(--min-len 1 --max-len 100 "${more[@]}") ;;
esac
use_environment
supervise etads-summarize "$run" "${input[@]}" --output "$output" ${subset:+--split "$subset"} ${content:+--content "$content"} \
    ${shortlist:+--shortlist-file "$shortlist"} --restart --sentence-marks "${more[@]}" || status=$?
[ "${status:-0}" -eq 0 ] || [ "$status$skip_bad" = 1yes ] || exit "$status"
