#!/usr/bin/env bash
# Summarise a split or your own documents: etads-summarize with the option names of earlier versions.
#
#   scripts/generate.sh --run DIR --output FILE [options] [-- options of etads-summarize]
#
#   --run DIR        output folder of etads-train
#   --output FILE    output file, with one summary per line; JSON lines if FILE ends in .jsonl; - for standard output
#   --input PATH     raw documents: a file, a folder, or - for standard input (default: the test split); may be repeated
#   --subset NAME    split to summarise: test (default), valid or train
#   --shortlist FILE   shortlist created by etads-shortlist
#   --content DIR    run folder with a content model (default: --run, if it contains one; none: no content model)
#   --skip-bad       succeed even if documents cannot be read; their summaries are empty
#   --cpu            do not use a GPU
#
# All other options are passed to etads-summarize. For a run without a recipe, --min-len is 1 and --max-len is 100. For
# options that only fairseq-generate has, call fairseq-generate.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run="" split="" content="" inputs=() skip="" shortest=(--min-len 1) longest=(--max-len 100) more=()
while [ $# -gt 0 ]; do
    case $1 in
        --run) need_value "$@"; run=$2; shift 2 ;;
        --output) need_value "$@"; [ -d "$(dirname "$2")" ] || need_folder "$1" "$(dirname "$2")"; more+=("$1" "$2"); shift 2 ;;
        --input) need_value "$@"; inputs+=("$2"); shift 2 ;;
        --subset) need_value "$@"; need_choice "$1" "$2" train valid test; split=$2; shift 2 ;;
        --shortlist) need_value "$@"; more+=(--shortlist-file "$2"); shift 2 ;;
        --skip-bad) skip=1; shift ;;
        --cpu) hide_gpus; more+=(--device cpu); shift ;;
        --content) need_value "$@"; content=$2; shift 2 ;;
        --exact-length* | --max-len-a*) shortest=() longest=(); more+=("$1"); shift ;;
        --min-len*) shortest=(); more+=("$1"); shift ;;
        --max-len*) longest=(); more+=("$1"); shift ;;
        --gen-subset* | --path* | --nbest* | --sampling* | --diverse-beam* | --lm-* | --score-reference | --results-path* | --batch-size*)
            die "${1%%=*}: is not an option of this script; call fairseq-generate, which has it" ;;
        -h | --help) usage ;;
        --) shift ;;
        *) more+=("$1"); shift ;;
    esac
done
[ -n "$run" ] || die "--run is missing; see --help"
[ -z "$split" ] || [ ${#inputs[@]} -eq 0 ] || die "--subset $split: cannot be combined with --input, which is summarised instead of a split"
[ ! -f "$run/recipe.json" ] || shortest=() longest=()
if [ ${#inputs[@]} -eq 0 ]; then
    more+=(--split "${split:-test}")
    content=${content:-$([ -f "$run/content.npz" ] && echo "$run" || echo none)}
fi
[ -z "$content" ] || more+=(--content "$content")
[ ! -f "$content/probabilities.sentences.train" ] || more+=(--extractor "$content")
use_environment
supervise etads-summarize "$run" "${inputs[@]}" --restart "${shortest[@]}" "${longest[@]}" "${more[@]}" || status=$?
[ "${status:-0}" -eq 0 ] || { [ "$status" -eq 1 ] && [ -n "$skip" ]; } || exit "$status"
