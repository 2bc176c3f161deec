#!/usr/bin/env bash
# Summarise a split of the data, or your own documents, with a trained model. The output contains one summary per line,
# in input order.
#
#   scripts/generate.sh --run DIR --output FILE [options] [-- options of fairseq-generate or fairseq-interactive]
#
#   --run DIR        output folder of etads-train
#   --output FILE    output file, with one summary per line; if FILE ends in .jsonl, JSON lines that also contain the
#                    names of the documents; - writes to standard output
#   --input PATH     raw documents: a file, a folder, or - for standard input (default: the test split); may be repeated
#   --input-format F   format of PATH (default: detected from its name and first line, and printed)
#                    file: the whole file is a document (default for text files); lines: each line is a document
#                    (default for standard input); folder: each file in the folder is a document; jsonl, csv: each
#                    record is a document, in a field such as "article", "document" or "text"
#   --lines          read each line as a document, like --input-format lines
#   --source-column NAME   name of the JSON field or CSV column that contains the document, if it is not a common name
#   --skip-bad       write an empty summary for each document that cannot be read, and report the number of such
#                    documents (default: stop and report the document)
#   --prepared DIR   folder containing the prepared data (default: the data used for training)
#   --subset NAME    split to summarise: test (default), valid or train
#   --checkpoint F   checkpoint file (default: DIR/checkpoints/checkpoint_best.pt)
#   --beam N         beam size (default: 5; the ETADS paper: 10)
#   --min-len N, --max-len N   minimum and maximum number of tokens in a summary (default: if RUN was trained with a
#                    recipe, derived from the training summaries and printed, otherwise 1 and 100; the ETADS paper: 35
#                    and 100)
#   --lenpen A       length penalty (default: 1; the ETADS paper: 0.9 with --length-penalty-type wu)
#   --length-penalty-type avg|wu, --coverage-penalty W, --no-repeat-ngram-size N, --infer-dtype fp32|bf16|int8|auto
#                    decoding options, described in docs/decoding.md (the ETADS paper: wu, 1, none; bf16 and int8 are
#                    faster on a CPU)
#   --shortlist FILE   shortlist created by etads-shortlist, which speeds up decoding with a large vocabulary
#                    (docs/decoding.md)
#   --content DIR    run folder that contains a content model trained by etads-content (default: --run, if it contains a
#                    content model; none: no content model). The beam then has 12 hypotheses. If DIR is the run folder
#                    of a summariser, the content model chooses one hypothesis (docs/decoding.md). If DIR is the run
#                    folder of an extractor, the content model chooses the sentences of the summary from all hypotheses
#                    of a diverse beam search and from the whole document (docs/long.md); this requires a split and a
#                    single process
#   --max-tokens N   maximum number of source tokens per batch (default: 8000)
#   --shard I/N      summarise only the I-th of N shards, and join all shards once they are complete (see below)
#   --cpu            do not use a GPU
#
# The summaries consist of detokenised words. FILE.log contains the complete output of fairseq, including scores and
# tokens. For JSON lines, folders and several input files, FILE.names identifies the document of each summary by the
# "id" or line number of the record, or by the file name; with several inputs, numbers follow the file name. Examples:
#
#   scripts/generate.sh --run runs/mine --input articles/ --output summaries.jsonl
#   scripts/generate.sh --run runs/mine --input - --output - < new-documents.txt
#
# Several processes or machines can share the work. Start each of them with a different --shard (1/4, 2/4, ...) and with
# otherwise identical options. Each process writes its shard to FILE.shards/, which all processes must be able to read
# and write. The process that completes the last shard writes FILE, in the order of the documents; FILE.shards can then
# be deleted. Complete shards are not summarised again, so an interrupted command can simply be repeated. Under
# torchrun, each process selects its own shard:
#
#   torchrun --nproc_per_node 4 --no-python scripts/generate.sh --run runs/mine --output summaries.txt

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

run="" prepared="" output="" inputs=() reading=() subset="" checkpoint="" shard="" shortlist="" content="" reranks="" beam="" min_len="" max_len="" lenpen=1 max_tokens=8000 more=()
while [ $# -gt 0 ]; do
    case $1 in
        --run) need_value "$@"; run=$2; shift 2 ;;
        --prepared) need_value "$@"; prepared=$2; shift 2 ;;
        --output) need_value "$@"; output=$2; shift 2 ;;
        --input) need_value "$@"; inputs+=(--input "$2"); shift 2 ;;
        --input-format) need_value "$@"; need_choice "$1" "$2" lines jsonl csv folder file; reading+=("$1" "$2"); shift 2 ;;
        --source-column) need_value "$@"; reading+=("$1" "$2"); shift 2 ;;
        --skip-bad | --lines) reading+=("$1"); shift ;;
        --subset) need_value "$@"; subset=$2; shift 2 ;;
        --checkpoint) need_value "$@"; checkpoint=$2; shift 2 ;;
        --beam) need_value "$@"; beam=$2; shift 2 ;;
        --min-len) need_value "$@"; min_len=$2; shift 2 ;;
        --max-len) need_value "$@"; max_len=$2; shift 2 ;;
        --lenpen) need_value "$@"; lenpen=$2; shift 2 ;;
        --max-tokens) need_value "$@"; max_tokens=$2; shift 2 ;;
        --length-penalty-type | --coverage-penalty | --no-repeat-ngram-size | --infer-dtype)
            need_value "$@"; more+=("$1" "$2"); shift 2 ;;
        --shortlist) need_value "$@"; shortlist=$2; more+=("$1" "$2"); shift 2 ;;
        --content) need_value "$@"; content=$2; shift 2 ;;
        --shard) need_value "$@"; shard=$2; shift 2 ;;
        --cpu) more+=(--cpu); shift ;;
        -h | --help) usage ;;
        --) shift; more+=("$@"); break ;;
        *) die "unknown option $1; see --help (options of fairseq-generate come after --)" ;;
    esac
done
# use_recipe: read the decoding options that are not given from RUN/recipe.json, and report them.
use_recipe() {
    local words option value taken=()
    words=$(python -c 'import sys; sys.argv[0] = "etads-prepare"; from fairseq_etads.jobs.recipe_choice import main; sys.exit(main())' \
        decoding "$run" "$prepared") || exit 2
    while read -r option && read -r value; do
        case $option in
            --min-len) [ -z "$min_len" ] && { [ -z "$max_len" ] || [ "$value" -le "$max_len" ]; } || continue; min_len=$value ;;
            --max-len) [ -z "$max_len" ] && { [ -z "$min_len" ] || [ "$value" -ge "$min_len" ]; } || continue; max_len=$value ;;
            *) case " ${more[*]} " in *" $option "*) continue ;; esac; more+=("$option" "$value") ;;
        esac
        taken+=("$option" "$value")
    done <<< "$words"
    [ ${#taken[@]} -eq 0 ] || say "from the training summaries ($run/recipe.json): ${taken[*]}"
}

[ -n "$run" ] || die "--run is missing; see --help"
[ -n "$output" ] || die "--output is missing; see --help"
need_path --output "$output"
[ -z "$subset" ] || [ ${#inputs[@]} -eq 0 ] || die "--subset $subset: cannot be combined with --input, which is summarised instead of a split"
subset=${subset:-test}
need_choice --subset "$subset" train valid test
if [ -z "$content" ] && [ -f "$run/content.npz" ]; then
    content=$run
    say "by the content model $run/content.npz (--content none: without it)"
fi
[ "$content" != none ] || content=""
[ -z "$content" ] || [ -f "$content/content.npz" ] || die "--content $content: it has no content.npz; etads-content makes it"
[ -n "$beam" ] || beam=$([ -n "$content" ] && echo 12 || echo 5)
need_integer --beam "$beam"
for name in min_len max_len; do [ -z "${!name}" ] || need_integer "--${name//_/-}" "${!name}"; done
need_integer --max-tokens "$max_tokens"
[[ $lenpen =~ ^-?[0-9]*\.?[0-9]+$ ]] || die "--lenpen $lenpen: choose a number"
[ -z "$min_len" ] || [ -z "$max_len" ] || [ "$min_len" -le "$max_len" ] || die "--min-len $min_len is more than --max-len $max_len"
use_environment
[ -n "$prepared" ] || prepared=$(prepared_of "$run") || exit 2
[ -f "$prepared/prepare.json" ] || die "--run $run: no prepared data in $prepared; etads-train makes it"
checkpoint=${checkpoint:-$run/checkpoints/checkpoint_best.pt}
[ -f "$checkpoint" ] || die "--checkpoint $checkpoint: no such file; etads-train makes it"
[ ${#inputs[@]} -eq 0 ] || [ ! -d "$run/shortened/extractor" ] ||
    die "${inputs[*]}: $run was trained on sentences that its extractor picks, so new documents need the extractor too: make a model folder with" \
        "etads-export $run FOLDER, and summarise them with etads-summarize FOLDER"
[ -z "$shortlist" ] || [ -f "$shortlist" ] || die "--shortlist $shortlist: no such file; etads-shortlist creates it"
[ ${#inputs[@]} -gt 0 ] || [ ${#reading[@]} -eq 0 ] || die "${reading[0]}: needs --input; see --help"
[ ! -d "$output" ] || die "--output $output: is a folder; name a file"
case $output in *.gz | *.xz | *.bz2 | *.zst | *.lz4) die "--output $output: is written uncompressed; choose a name without .${output##*.}" ;; esac
if [ -n "${RANK:-}" ] && [ "${WORLD_SIZE:-1}" -gt 1 ] && [ -z "$shard" ]; then
    shard=$((RANK + 1))/$WORLD_SIZE  # torchrun
    devices=${CUDA_VISIBLE_DEVICES-$(seq -s , 0 "${LOCAL_RANK:-0}")}
    CUDA_VISIBLE_DEVICES=$(echo "$devices" | cut -d , -f $((${LOCAL_RANK:-0} + 1)))
    export CUDA_VISIBLE_DEVICES
fi
if [ -n "$content" ] && [ ! -f "$content/probabilities.sentences.train" ]; then
    [ "$beam" -gt 1 ] || die "--beam 1: leaves the content model of $content nothing to choose from; see --content"
    more+=(--content-model "$content/content.npz")
    reranks=yes
elif [ -n "$content" ]; then
    [ ${#inputs[@]} -eq 0 ] || die "--content $content: has no probabilities for the documents of --input; leave out one of the two"
    [ -z "$shard" ] || die "--content $content: cannot be combined with --shard"
    case $output in - | *.jsonl) die "--content $content: needs a text file as --output, not $output" ;; esac
    [ -f "$content/probabilities.sentences.$subset" ] ||
        die "--content $content: it has no probabilities.sentences.$subset; etads-select makes it"
    case " ${more[*]} " in *" --diverse-beam-groups "* | *" --sampling "*) ;; *)
        [ $((beam % 4)) -eq 0 ] || die "--beam $beam: with --content choose a multiple of 4, the number of groups"
        more+=(--diverse-beam-groups 4) ;;
    esac
    case " ${more[*]} " in *" --nbest "*) ;; *) more+=(--nbest "$beam") ;; esac
fi
case " ${more[*]} " in *" --cpu "*) hide_gpus ;; esac
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT  # otherwise, fairseq would also connect the processes
if [ -n "$shard" ]; then
    [[ $shard =~ ^([1-9][0-9]{0,5})/([1-9][0-9]{0,5})$ ]] && [ "${shard%/*}" -le "${shard#*/}" ] ||
        die "--shard $shard: choose I/N with I from 1 to N, such as 2/4, the second of four"
    [ "$output" != - ] || die "--output -: shards need a file; name one"
    case " ${inputs[*]} " in *" --input - "*) die "--input -: every shard would read all of it; name a file" ;; esac
fi

# Lengths that are not given are read from the training recipe, which chose them based on the training summaries.
case " ${more[*]} " in
    *" --exact-length "* | *" --max-len-a "*) ;;
    *) [ ! -f "$run/recipe.json" ] || use_recipe ;;
esac
min_len=${min_len:-1}
[ -n "$max_len" ] || max_len=$((min_len > 100 ? min_len : 100))

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$output.log
[ -z "$shard" ] || log=$output.shards/${shard/\//-of-}.log
if [ "$output" = - ]; then
    log=$(mktemp "${TMPDIR:-/tmp}/generate.XXXXXX")
else
    need_folder --output "$(dirname "$log")"
fi
[ -n "$shard" ] || [ "$output" = - ] || ( : >> "$log" ) 2>/dev/null || die "--output $output: cannot be written"
writes=("$log")
[ "$output" = - ] || writes+=("$output" "$output.names")
common=("$prepared/bin" --user-dir "$PLUGIN" --task summarization --path "$checkpoint" --beam "$beam"
    --min-len "$min_len" --max-len-b "$max_len" --lenpen "$lenpen" --max-tokens "$max_tokens")
options=$(inference_options "$prepared") || die "the options for new text cannot be read from --prepared $prepared"
inference=()
while IFS= read -r word; do inference+=("$word"); done <<< "$options"
if [ ${#inputs[@]} -gt 0 ]; then
    # With this command name, torch and fairseq are not imported. Importing them would take seconds.
    python -c 'import sys; sys.argv[0] = "etads-corpus"; from fairseq_etads.text.input_records import main; main()' \
        "${inputs[@]}" "${reading[@]}" --writes "${writes[@]}" --out "$scratch" || exit 2
    wanted=$(wc -l < "$scratch/documents")
    say "summarising ${shard:+shard $shard of }$((wanted)) documents"
    command=(fairseq-interactive "${common[@]}" "${inference[@]}" --buffer-size 512)
    input=(--input "$scratch/documents")
    reads=("$scratch/documents")
else
    wanted=$(wc -l < "$prepared/tokens/$subset.source")
    say "summarising ${shard:+shard $shard of }the $((wanted)) documents of $subset"
    command=(fairseq-generate "${common[@]}" "${inference[@]}" --gen-subset "$subset")
    input=()
    reads=("$prepared/tokens/$subset.source")
    seq "$wanted" > "$scratch/names"
fi
[ -z "$shortlist" ] || reads+=("$shortlist")
[ -z "$reranks" ] || reads+=("$content/content.npz")

# share [options of preprocess/summary_shards.py]: print "done" if the shard exists, and "joined" if all shards exist and OUT has
# been written.
share() {
    python -c 'import sys; sys.argv[0] = "etads-corpus"; from etads_preprocess.summary_shards import main; main()' \
        --shard "$shard" --output "$output" --documents "$wanted" --command "${command[*]} ${more[*]}" \
        --reads "${reads[@]}" "$checkpoint" "$prepared"/bin/dict.*.txt --names "$scratch/names" "$@" || exit 2
}

# summarise_share [options of fairseq]: summarise only this shard. fairseq divides a split by batches, so the number of documents is
# approximate.
summarise_share() {
    run_fairseq "$log" --new --documents $(((wanted + ${shard#*/} - ${shard%/*}) / ${shard#*/})) -- "${command[@]}" "$@" "${more[@]}" || exit 2
}

if [ -z "$shard" ]; then
    supervise python "$ROOT/scripts/fairseq_summaries.py" "$log" --names "$scratch/names" --output "$output" \
        -- "${command[@]}" "${input[@]}" "${more[@]}" || exit $?
    [ "$output" != - ] || { rm -f "$log"; exit 0; }
    [ -z "$content" ] || [ -n "$reranks" ] || supervise etads-extract "$content/prepared" "$output" --by content --selection "$content" \
        --subset "$subset" --hypotheses "$log" || exit $?
else
    number=${shard%/*} state=$(share) || exit 2
    if [ -n "$state" ]; then
        say "shard $shard exists already: $(dirname "$log")"
    elif [ ${#input[@]} -gt 0 ]; then
        awk -v first="$number" -v step="${shard#*/}" 'NR % step == first % step' "$scratch/documents" > "$scratch/share"
        : > "$log"
        [ ! -s "$scratch/share" ] || summarise_share --input "$scratch/share"
        state=$(share --log "$log" --every) || exit 2
    else
        summarise_share --num-shards "${shard#*/}" --shard-id $((number - 1))
        state=$(share --log "$log") || exit 2
    fi
    [ "$state" = joined ] || exit 0
fi
say "summaries: $output"
say_processor_time
