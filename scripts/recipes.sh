# Functions, in addition to common.sh, that the recipes in scripts/reproduce/ share for training, summarisation and tables.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# need_folder OPTION DIR: create DIR, the value of OPTION, or report why it cannot be written to.
need_folder() {
    case $2 in -?*) die "$1 $2: begins with -, like an option; write ./$2" ;; esac
    [ -d "$2" ] || [ ! -e "$2" ] || die "$1 $2: is a file; name a folder"
    mkdir -p "$2" 2>/dev/null || die "$1 $2: cannot be made; is a folder above it read-only, or a file?"
    [ -w "$2" ] || die "$1 $2: cannot be written to"
}

need_integer() {
    [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 $2: choose a whole number above 0"
}

need_choice() {
    local option=$1 value=$2
    shift 2
    local choice
    for choice in "$@"; do [ "$choice" = "$value" ] && return; done
    die "$option $value: choose one of: $*"
}

# train_once RUN PREPARED [options of fairseq-train]: train and show progress; the full output is in RUN/train.log. If training
# with these options and data has already finished, nothing is done.
train_once() {
    local run=$1 prepared=$2
    shift 2
    need_folder --out "$run"
    supervise python -m fairseq_etads.pipeline.training "$run" "$prepared" -- "$@" || exit $?
}

# Options for train_small. The 12,000 training pairs in the sample corpus are too few for learning position embeddings.
SINUSOIDAL=(--no-encoder-learned-pos --no-decoder-learned-pos)

# train_small STEPS [options of etads-train] [-- options of fairseq-train]: train a model that is small enough for two
# cores and regularised for the 12,000 pairs in the sample corpus. The model sizes in the papers require the papers' corpora.
train_small() {
    local steps=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    case " ${options[*]} " in *" --text "*) options=(--size 5000 "${options[@]}") ;; esac
    supervise etads-train --recipe paper --truncate-source 60 --truncate-target 40 --max-tokens 4000 \
        --max-update "$steps" "${options[@]}" -- --encoder-layers 2 --decoder-layers 2 \
        --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 \
        --num-workers 0 --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates 200 --total-num-update "$steps" \
        --adam-betas '(0.9, 0.98)' --label-smoothing 0.1 --dropout 0.2 "$@"
}

# read_options "OPTIONS" "$@": read options into variables that contain the defaults: --pg-data VALUE sets pg_data. If OPTIONS contains
# --archs=systems, --archs VALUE sets systems. If it contains --cpu, --cpu hides GPUs, which parts of fairseq still use with --cpu alone, and sets the array device to (--cpu). If it
# contains --, all words after -- are stored in the array more (options of fairseq-train).
read_options() {
    local offered=" $1 " variable
    device=() more=()
    shift
    while [ $# -gt 0 ]; do
        case $1 in -h | --help) usage ;; esac
        if [[ $offered != *" $1 "* && $offered != *" $1="* ]]; then
            [[ $offered != *" -- "* ]] || die "unknown option $1; see --help (options of fairseq-train come after --)"
            die "unknown option $1; see --help"
        fi
        case $1 in
            --cpu) export CUDA_VISIBLE_DEVICES=""; device=(--cpu); shift ;;
            --) shift; more=("$@"); break ;;
            *)
                need_value "$@"
                variable=${1#--}
                [[ ! $offered =~ " $1="([a-z]+) ]] || variable=${BASH_REMATCH[1]}
                printf -v "${variable//-/_}" %s "$2"
                shift 2 ;;
        esac
    done
}

# summarise_once RUN OUTPUT [options of generate.sh]: write the summaries of RUN, unless they exist and were created with the
# same options, checkpoints, content model, limits of length (RUN/recipe.json) and other input files.
summarise_once() {
    local run=$1 output=$2 word reads=("$1"/checkpoints/checkpoint_{best,last}.pt)
    shift 2
    for word in "$run"/{content.npz,recipe.json} "$@"; do [ ! -e "$word" ] || reads+=("$word"); done
    once --makes "$output" --reads "${reads[@]}" -- "$ROOT/scripts/generate.sh" --run "$run" --output "$output" "$@"
}

# score_once RUN TEXT [options of etads-rouge]: score RUN/summaries.txt against TEXT/test.target and, if the documents have several
# references, TEXT/test.target.1 and so on. Write RUN/rouge.json, unless it exists and was created from the same files.
score_once() {
    local run=$1 text=$2 references=("$2/test.target") file
    shift 2
    for file in "$text"/test.target.[0-9]*; do [ ! -f "$file" ] || references+=("$file"); done
    once --makes "$run/rouge.json" --reads "$run/summaries.txt" "${references[@]}" \
        -- etads-rouge "$run/summaries.txt" "${references[@]}" --json "$run/rouge.json" "$@"
}

# export_once RUN FOLDER CARD DERIVED [options of etads-export]: export RUN to FOLDER, with the text CARD at the end of the model card,
# unless this was done with the same options from the same checkpoints and content models. An older model folder is replaced. If it
# had other weights, DERIVED, a file that was made with it, is deleted. CARD and DERIVED can be empty. FOLDER.exported lists the files
# in FOLDER.
export_once() {
    local run=$1 folder=$2
    # The older folder stays until the new one is complete. etads-export writes nothing if commands are only checked.
    # shellcheck disable=SC2016  # expanded by the inner shell
    once --makes "$folder.exported" "$folder/model.safetensors" --reads "$run"/checkpoints/checkpoint_{best,last}.pt \
        "$run"/{content.npz,recipe.json} "$run"/shortened/extractor/{checkpoints/checkpoint_best.pt,content.npz} \
        -- bash -ec 'new=$2.new/$(basename "$2")
            rm -rf "$2.new"
            etads-export "$1" "$new" "${@:5}"
            [ -d "$new" ] || exit 0
            [ -z "$3" ] || printf "%s\n" "$3" >> "$new/README.md"
            [ -z "$4" ] || cmp -s "$new/model.safetensors" "$2/model.safetensors" || rm -f "$4"
            rm -rf "$2"
            mv "$new" "$2"
            rmdir "$2.new"
            ls "$2" > "$2.exported"' etads-export "$@"
}

# run_system RUN TEXT PREPARED COMMAND... [-- options of fairseq-train]: train with COMMAND (train_small or train_prepared, with
# options), summarise the test split (RUN/summaries.txt), and score the summaries (RUN/rouge.json). The arrays GENERATE and ROUGE
# contain options of generate.sh and etads-rouge. Finished steps are skipped.
run_system() {
    local run=$1 text=$2 prepared=$3 command=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    "${command[@]}" --prepared "$prepared" --out "$run" "$@"
    summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" "${GENERATE[@]}"
    score_once "$run" "$text" "${ROUGE[@]}"
}

# Optimiser of Nallapati et al. The code that theirs is based on implements Adadelta and ignores their learning rate of 0.001.
ADADELTA=(--optimizer lazy_adadelta --lr 1 --adadelta-rho 0.95 --adadelta-eps 1e-6 --clip-norm 1)

# need_prepared OPTION DIR SCRIPT: fail unless DIR, the value of OPTION, contains prepared data. SCRIPT creates such data.
need_prepared() {
    [ -n "$2" ] || die "$1 is missing; see --help"
    [ -f "$2/prepared/bin/complete" ] || die "$1 $2: no prepared data in it; $3 makes them"
}

# begin_recipe SCRIPT "ALL" [VARIABLE ...]: check the options that most recipes share: data (created by SCRIPT) and rows (a
# subset of ALL). The other variables must contain integers.
begin_recipe() {
    local variable
    need_prepared --data "$data" "$1"
    for variable in "${@:3}"; do need_integer "--${variable//_/-}" "${!variable}"; done
    need_choices --rows "$rows" "$2"
    use_environment
}

# begin_gigaword "ALL" SOURCE TARGET [VARIABLE ...]: call begin_recipe for Gigaword, check the option duc, and print the
# vocabulary sizes of the data (see say_vocabulary).
begin_gigaword() {
    [ -z "$duc" ] || need_prepared --duc "$duc" scripts/prepare_duc.sh
    begin_recipe scripts/prepare_gigaword.sh "$1" "${@:4}"
    say_vocabulary "$data/prepared" "$2" "$3"
}

# say_vocabulary PREPARED SOURCE TARGET: print the source and target vocabulary sizes, and warn if the data was not created
# with the sizes in the paper, SOURCE and TARGET.
say_vocabulary() {
    python - "$@" <<'PYTHON' | while IFS= read -r line; do say "$line"; done
import json, pathlib, sys
path, paper = pathlib.Path(sys.argv[1]) / "report.json", dict(zip(("source", "target"), map(int, sys.argv[2:])))
report = json.loads(path.read_text(encoding="utf-8")).get("vocabulary") or {"known": {}, "asked": {}}
for side, what in (("source", "documents"), ("target", "summaries")):
    known, asked = report["known"].get(side), report["asked"].get(side)
    line = f"vocabulary of {what}: {known} words, {asked} asked for, {paper[side]} in the paper"
    print(line if asked == paper[side] else f"WARNING: {line}; --help explains how to make the data")
PYTHON
}

# need_choices OPTION "LIST" "ALL": fail unless every word of LIST, the value of OPTION, is one of ALL.
need_choices() {
    local value
    # shellcheck disable=SC2086  # must be split into words
    for value in $2; do need_choice "$1" "$value" $3; done
}

# read_comparison OPTION "$@": read the options of a comparison on Debian synopses into the variables out, steps, seeds,
# systems and text. The first four must contain their defaults; the default of systems is all systems. OPTION (such as --archs)
# selects some of them. Without --text, the sample corpus is unpacked, and text is its folder. If a script sets a default in the
# variable size or rl_steps, it also has the option --size or --rl-steps.
read_comparison() {
    local option=$1 all=$systems
    text=""
    shift
    read_options "--out --steps --seeds $option=systems --text${size:+ --size}${rl_steps:+ --rl-steps}" "$@"
    [ -z "${size:-}" ] || need_integer --size "$size"
    [ -z "${rl_steps:-}" ] || need_integer --rl-steps "$rl_steps"
    need_integer --steps "$steps"
    need_choices "$option" "$systems" "$all"
    use_environment
    [ -z "$text" ] || [ -f "$text/test.source" ] || die "--text $text: no test.source in it; etads-debian makes it"
    [ -n "$text" ] || { text=$out/text; etads-debian --sample --out "$text"; }
}

# compare_rows ROWS ROW BASE TEXT [options of etads-compare]: if both rows are among ROWS, print paired tests of the difference
# between ROW and BASE over all seeds. Summaries are scored against TEXT/test.target, and the report is OUT/ROW-minus-BASE.json.
compare_rows() {
    local rows=$1 row=$2 base=$3 text=$4 first=() second=() seed
    shift 4
    both_chosen "$rows" "$row" "$base" || return 0
    say "$row minus $base"
    for seed in $seeds; do first+=("$out/$row-$seed/summaries.txt") second+=("$out/$base-$seed/summaries.txt"); done
    compare_once "$out/$row-minus-$base" "$text/test.target" --a "${first[@]}" --b "${second[@]}" "$@"
}

# compare_row_likelihoods ROWS ROW BASE [options of etads-compare]: print the same tests for the likelihoods of the references.
compare_row_likelihoods() {
    local rows=$1 row=$2 base=$3 first=() second=() seed
    shift 3
    both_chosen "$rows" "$row" "$base" || return 0
    for seed in $seeds; do first+=("$out/$row-$seed") second+=("$out/$base-$seed"); done
    compare_once "$out/$row-minus-$base-likelihood" --likelihood --a "${first[@]}" --b "${second[@]}" "$@"
}

# compare_once PATH [options of etads-compare]: print the tables of etads-compare, and write its report to PATH.json. The output is
# stored in PATH.txt. It is printed again as long as the options, and the files and checkpoints in them, are unchanged.
compare_once() {
    local path=$1 input reads=()
    shift
    for input in "$@"; do
        if [ -d "$input" ]; then
            reads+=("$input"/checkpoints/checkpoint_{best,last}.pt)
        elif [ -f "$input" ]; then
            reads+=("$input")
        fi
    done
    once --makes "$path.json" --keeps "$path.txt" --reads "${reads[@]}" -- etads-compare "$@" --json "$path.json"
}

# both_chosen ROWS ROW BASE: return whether ROW and BASE are in the list ROWS.
both_chosen() {
    [[ " $1 " == *" $2 "* && " $1 " == *" $3 "* ]]
}

# train_prepared [options of etads-train] [-- options of fairseq-train]: train on prepared data.
train_prepared() {
    supervise etads-train --recipe paper "$@"
}

# run_long RUN TEXT [options of etads-train] [-- options of fairseq-train]: train on the sentences that an extractor picks from each
# document, let a content model choose the sentences of the summaries, and score the summaries (RUN/rouge.json).
run_long() {
    local run=$1 text=$2
    shift 2
    supervise etads-train --text "$text" --out "$run" --long "${device[@]}" "$@"
    summarise_once "$run" "$run/summaries.txt" --content "$run/shortened/extractor" "${device[@]}"
    score_once "$run" "$text" "${ROUGE[@]}"
}

# score_table DIR NAMES SEEDS [FILE [MEASURE]]: print a Markdown table of the scores in DIR/NAME-SEED/FILE (default:
# rouge.json). NAMES and SEEDS are lists of words, and MEASURE is f1 (default), precision or recall.
score_table() {
    python - "$@" <<'PYTHON'
import json, pathlib, sys
out, names, seeds = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
file, measure = [*sys.argv[4:], *("rouge.json", "f1")[len(sys.argv) - 4 :]]
rows = []
for name in names:
    for seed in seeds:
        report = json.loads((out / f"{name}-{seed}" / file).read_text())
        scores = report["scores"]
        cells = [f"{s[measure]:.2f} [{s[f'{measure}_interval'][0]:.2f}, {s[f'{measure}_interval'][1]:.2f}]" for s in scores.values()]
        rows.append(f"| `{name}` | {seed} | {' | '.join(cells)} |")
print(f"| system | seed | {' | '.join(f'ROUGE-{metric[5:]}' for metric in scores)} |\n|{'---|' * (len(scores) + 2)}")
print(*rows, report["signature"], sep="\n")
PYTHON
}

# difference_table ROWS BASE TEXT: print a Markdown table with the results of compare_rows for every row except BASE. Print
# nothing if BASE is not among ROWS.
difference_table() {
    local row rows=$1 base=$2 text=$3
    [[ " $rows " == *" $base "* && $rows != "$base" ]] || return 0
    for row in $rows; do
        [ "$row" = "$base" ] || compare_rows "$rows" "$row" "$base" "$text" --quiet > /dev/null
    done
    python - "$out" "$rows" "$base" <<'PYTHON'
import json, pathlib, sys
out, rows, base = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3]
lines = []
for row in rows:
    if row == base:
        continue
    report = json.loads((out / f"{row}-minus-{base}.json").read_text())
    scores, cells = report["scores"], []
    for score in scores.values():
        low, high = score["interval"] or (float("nan"), float("nan"))  # None for a single document
        p = score.get("p_randomisation", score["p_bootstrap"])
        cells.append(f"{score['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {'=' if p >= 0.001 else '<'} {max(p, 0.001):.3f}")
    lines.append(f"| `{row}` | {' | '.join(cells)} |")
print(f"\n| minus `{base}` | {' | '.join(f'ROUGE-{metric[5:]}' for metric in scores)} |\n|{'---|' * (len(scores) + 1)}")
print(*lines, report["signature"], sep="\n")
PYTHON
}

# train_recurrent RUN PREPARED [options of fairseq-train]: train a recurrent model. Documents are sorted by length within
# groups of ten batches. A run that has finished with these options is skipped, and an interrupted run is continued.
train_recurrent() {
    local run=$1 prepared=$2
    shift 2
    train_once "$run" "$prepared" --batch-size 50 --required-batch-size-multiple 1 --sort-within 10 "$@"
}

# train_selector RUN PREPARED LABELS [options of fairseq-train]: train a selector on the labels in LABELS with the optimiser of
# Gehrmann et al. and Hsu et al. 2018. Write its probabilities for validation and test documents to RUN, and their quality to
# RUN/report.json.
train_selector() {
    local run=$1 prepared=$2 labels=$3
    shift 3
    train_once "$run" "$prepared" --criterion selection_nll --labels "$labels" --optimizer lazy_adagrad --lr 0.15 \
        --initial-accumulator 0.1 --clip-norm 2 --batch-size 32 --required-batch-size-multiple 1 \
        "${device[@]}" "$@"
    once --makes "$run/report.json" --reads "$run/checkpoints/checkpoint_best.pt" "$prepared" "$labels" \
        -- etads-select "$run" --prepared "$prepared" --labels "$labels" --subset valid test --report "$run/report.json"
}

# label_once DIR KIND "SPLITS" [options of etads-labels]: label the documents in the caller's variable prepared, and write the
# labels to DIR, unless they exist and were created with these options from the same data.
label_once() {
    local dir=$1 kind=$2 split files=() name=sentences
    [ "$kind" != words ] || name=words
    for split in $3; do files+=("$dir/labels.$name.$split"); done
    # shellcheck disable=SC2086  # must be split into words
    once --makes "${files[@]}" --reads "$prepared" \
        -- etads-labels "$prepared" --kind "$kind" --subset $3 --out "$dir" "${@:4}"
}

# share_training RUN OTHER: link the trained model of OTHER into RUN, so that it can be used with other decoding options.
share_training() {
    local name
    mkdir -p "$1"
    for name in checkpoints train.log training.json finished.txt; do ln -sfn "../${2##*/}/$name" "$1/$name"; done
}

# tuned_weights RUN DIR PREPARED LENGTH TEXT [options of etads-tune]: tune the weights of the extractive features of the ABS model in RUN
# on TEXT.source and TEXT.target, for summaries of LENGTH words. Write all files to DIR, and print the best weights.
tuned_weights() {
    local run=$1 dir=$2 prepared=$3 length=$4 text=$5
    shift 5
    export_once "$run" "$dir/model" "" "$dir/mert.jsonl" --prepared "$prepared" --exact-length "$length" --no-repeat-ngram-size 1 \
        --recombine 5 --unkpen 1000000 >&2
    etads-tune "$dir/model" "$text.source" "$text.target" --mert --out "$dir" "$@" >&2
    python -c 'import json, sys; print(json.load(open(sys.argv[1]))["extractive_weights"])' "$dir/mert.json"
}

# read_stages: read the variable stages, such as "50/15 100/25", into the array lengths. Check that the total number of steps leaves
# some steps for the last stage after stage_steps in each of the other stages.
read_stages() {
    local length
    need_integer --steps "$steps"
    need_integer --stage-steps "$stage_steps"
    read -ra lengths <<< "$stages"
    [ ${#lengths[@]} -gt 0 ] || die "--stages is empty; see --help"
    for length in "${lengths[@]}"; do
        [[ $length =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] || die "--stages $stages: \"$length\" is not DOCUMENT/SUMMARY, two numbers above 0"
    done
    [ $(((${#lengths[@]} - 1) * stage_steps)) -lt "$steps" ] ||
        die "--steps $steps: ${#lengths[@]} stages of $stage_steps steps (--stage-steps) need more; choose more steps or fewer --stages"
}

# train_stage RUN PREPARED LENGTHS [options of fairseq-train]: train as in See et al., with documents and summaries that are truncated to
# LENGTHS tokens.
train_stage() {
    local run=$1 prepared=$2 source=${3%/*} target=${3#*/}
    shift 3
    train_once "$run" "$prepared" --batch-size 16 --required-batch-size-multiple 1 --sort-within 100 --no-end-if-cut \
        --truncate-source "$source" --truncate-target "$target" --length-normalised --optimizer lazy_adagrad --lr 0.15 \
        --initial-accumulator 0.1 --clip-norm 2 "${device[@]}" "$@" "${more[@]}"
}

# train_pointer_generator RUN PREPARED SEED: train See et al.'s model in all stages.
train_pointer_generator() {
    train_in_stages "$@" --arch pointer_generator
}

# train_in_stages RUN PREPARED SEED [options of fairseq-train]: train in all stages (see read_stages). Each stage continues the
# previous stage with the same optimiser. The last stage is RUN itself, and the others are in RUN/stages.
train_in_stages() {
    local run=$1 prepared=$2 seed=$3 number stage before=() last=$((${#lengths[@]} - 1))
    shift 3
    for ((number = 0; number < last; number++)); do
        stage=$run/stages/$((number + 1))
        # There is no validation, because losses at different lengths cannot be compared.
        train_stage "$stage" "$prepared" "${lengths[number]}" --seed "$seed" "$@" "${before[@]}" \
            --max-update $(((number + 1) * stage_steps)) --disable-validation
        before=(--continue-once "$stage/checkpoints/checkpoint_last.pt")
    done
    train_stage "$run" "$prepared" "${lengths[last]}" --seed "$seed" "$@" "${before[@]}" --max-update "$steps"
}

# train_see2017 DIR ROWS SEED [options of fairseq-train]: train the rows of see2017_cnndm.sh in DIR/ROW-SEED. Its options are
# the caller's variables data, stages, stage_steps, steps and coverage_steps (empty for the default), and the arrays device and more.
train_see2017() {
    local dir=$1 rows=$2 seed=$3 options=(--data "$data" --seeds "$3" "${device[@]}")
    shift 3
    [ -z "$stages" ] || options+=(--stages "$stages")
    [ -z "$stage_steps" ] || options+=(--stage-steps "$stage_steps")
    [ -z "$steps" ] || options+=(--steps "$steps")
    [ -z "$coverage_steps" ] || options+=(--coverage-steps "$coverage_steps")
    "$ROOT/scripts/reproduce/see2017_cnndm.sh" "${options[@]}" --out "$dir" --rows "$rows" -- "${more[@]}" "$@" \
        > /dev/null  # the caller prints its own table
}

# train_with_rewards RUN BEFORE SEED REWARDS [options of fairseq-train]: continue the run BEFORE, a pointer-generator with coverage,
# for rl_steps steps with --rewards REWARDS, and then summarise and score. See train_see2017 for data, device and more.
train_with_rewards() {
    local run=$1 before=$2 seed=$3 rewards=$4
    shift 4
    train_once "$run" "$data/prepared" --arch pointer_generator_coverage --batch-size 16 --required-batch-size-multiple 1 \
        --sort-within 100 --no-end-if-cut --truncate-source 400 --truncate-target 100 --criterion summarization_rl \
        --rewards "$rewards" --rl-weight 0.998 --rl-max-len 100 --coverage-loss 1 --optimizer adam --lr 1e-4 --clip-norm 2 \
        --init-from "$before/checkpoints/checkpoint_last.pt" --max-update "$rl_steps" --seed "$seed" \
        --eval-rouge --best-checkpoint-metric rougeL --maximize-best-checkpoint-metric \
        "${device[@]}" "${more[@]}" "$@"
    summarise_and_score "$run" "$data" --beam 4 --min-len 35 --max-len 120 \
        "${device[@]}"
}

# train_nli TEXT DIR [options of etads-nli train]: train an entailment model in DIR/model on pairs that are created from
# TEXT/train.target (DIR/pairs), unless the model exists and was created from the same text.
train_nli() {
    local text=$1 dir=$2
    shift 2
    need_folder --out "$dir"
    [ -f "$dir/model/config.json" ] || say "training an entailment model on pairs of reference summaries, in $dir"
    # The record is not stored in the folder of the pairs, because training with an auxiliary task reads all files there.
    once --record "$dir/pairs.made.json" --makes "$dir"/pairs/{train,valid}.tsv --reads "$text"/{train,valid}.target \
        -- etads-nli synthesise "$text" "$dir/pairs" >&2
    once --makes "$dir/model/model.safetensors" "$dir/model/config.json" --reads "$dir"/pairs/{train,valid}.tsv \
        -- etads-nli train "$dir/model" --train "$dir/pairs/train.tsv" --valid "$dir/pairs/valid.tsv" \
        ${device[@]+--device cpu} "$@" >&2
}

# prepare_rewriting READ: prepare data for Chen and Bansal's system. Match summary sentences with sentences in the first READ tokens
# of the documents (OUT/labels), and prepare these sentence pairs (OUT/sentences). The caller's variable prepared is the folder of the
# prepared documents.
prepare_rewriting() {
    label_once "$out/labels" match "train valid" --truncate-source "$1"
    once --record "$out/sentences/text.made.json" --makes "$out/sentences/text"/{train,valid}.{source,target} --reads "$prepared" \
        -- etads-labels "$prepared" --pairs "$out/sentences/text" --truncate-source "$1" --subset train valid
    supervise etads-prepare "$out/sentences/text" "$out/sentences/prepared" --like "$prepared"
}

# train_rewriter PART SEED [options of fairseq-train]: train a part of Chen and Bansal's system in OUT/PART-SEED with the
# options that all parts share. The parts are the abstractor, the extractor (trained on labels), and the actor (the extractor after
# training with rewards).
train_rewriter() {
    local part=$1 seed=$2 data=$prepared options=()
    shift 2
    case $part in
        abstractor) data=$out/sentences/prepared options=(--lr 1e-3 --arch sentence_rewriter --truncate-source 100 --truncate-target 30) ;;
        extractor) options=(--lr 1e-3 --arch pointer_extractor --criterion extractor_nll --labels "$out/labels") ;;
        actor)
            options=(--lr 1e-4 --arch pointer_extractor --learn-to-stop --criterion extractor_rl --truncate-target 1000
                --abstractor "$out/abstractor-$seed/checkpoints/checkpoint_best.pt"
                --init-from "$out/extractor-$seed/checkpoints/checkpoint_best.pt") ;;
    esac
    train_once "$out/$part-$seed" "$data" --optimizer adam --clip-norm 2 --batch-size 32 --required-batch-size-multiple 1 \
        "${device[@]}" "${options[@]}" --seed "$seed" "$@" "${more[@]}"
}

# rewrite_row ROW SEED SENTENCES [LENGTH]: write summaries to OUT/ROW-SEED, and score them against DATA/text. The row labels uses
# SENTENCES sentences from the extractor. The rows rewards and rerank use the sentences that the actor selects until it stops. Only
# rerank uses a beam and --rerank-length LENGTH.
rewrite_row() {
    local run=$out/$1-$2 extractor=$out/actor-$2 decoding=(--beam 1)
    case $1 in
        labels) extractor=$out/extractor-$2 decoding=(--beam 1 --sentences "$3") ;;
        rerank) decoding=(--beam 5 --diversity 1 --rerank ${4:+--rerank-length "$4"}) ;;
    esac
    share_training "$run" "$extractor"
    once --makes "$run/summaries.txt" --reads "$prepared" {"$extractor","$out/abstractor-$2"}/checkpoints/checkpoint_best.pt \
        -- etads-rewrite "$prepared" "$run/summaries.txt" --extractor "$extractor" --abstractor "$out/abstractor-$2" \
        "${decoding[@]}" ${device[@]+--device cpu}
    score_once "$run" "$data/text"
}

# train_small_recurrent STEPS RUN PREPARED ARCH [options of fairseq-train]: train a recurrent model that is small enough
# for two cores.
train_small_recurrent() {
    local steps=$1 run=$2 prepared=$3 arch=$4 coverage=()
    shift 4
    [ "$arch" != pg_coverage ] || coverage=(--coverage-loss 1 --coverage-loss-start $((steps * 4 / 5)))
    train_recurrent "$run" "$prepared" --arch "$arch" --encoder-embed-dim 100 --encoder-hidden-size 128 --attention-dim 128 \
        --dropout 0.2 --truncate-source 60 --truncate-target 40 --optimizer lazy_adam --lr 1e-3 --clip-norm 2 \
        --max-update "$steps" --num-workers 0 --cpu "${coverage[@]}" "$@"
}

# train_convolutional RUN DATA [options of fairseq-train]: train a convolutional model on DATA/prepared with the optimiser of
# Gehring et al. 2017: Nesterov momentum with a learning rate that is divided by ten after an epoch without a better validation loss.
train_convolutional() {
    local run=$1 data=$2
    shift 2
    train_once "$run" "$data/prepared" --optimizer nag --momentum 0.99 --clip-norm 0.1 --lr-scheduler reduce_lr_on_plateau \
        --lr-shrink 0.1 --validate-interval-updates -1 --required-batch-size-multiple 1 "$@"
}

# summarise_and_score RUN DATA [options of generate.sh]: summarise the test documents (RUN/summaries.txt), and score the
# summaries (RUN/rouge.json).
summarise_and_score() {
    local run=$1 data=$2
    shift 2
    summarise_once "$run" "$run/summaries.txt" --prepared "$data/prepared" "$@"
    score_once "$run" "$data/text"
}

# summarise_and_score_duc RUN DUC [options of generate.sh]: summarise the documents in DUC (RUN/duc.txt), and compute the recall
# at 75 bytes (RUN/duc.json).
summarise_and_score_duc() {
    local run=$1 duc=$2
    shift 2
    summarise_once "$run" "$run/duc.txt" --prepared "$duc/prepared" "$@"
    once --makes "$run/duc.json" --reads "$run/duc.txt" "$duc"/text/test.target* \
        -- etads-rouge "$run/duc.txt" "$duc"/text/test.target* --duc75 --json "$run/duc.json"
}
