#!/usr/bin/env bash
# Measure the effect of each mechanism of the papers: systems that differ in one respect, with the same data, steps and decoding.
#
#   scripts/prepare_debian.sh --out data/debian -- --tokens word --size 8000 --source-sentence-marks --factors tf idf
#   scripts/reproduce/evidence.sh --corpus debian --data data/debian [options]
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed -- --size 8000 --source-sentence-marks --factors tf idf
#   scripts/reproduce/evidence.sh --corpus sumpubmed --data data/sumpubmed [options]
#
#   --corpus NAME   corpus: debian (default), sumpubmed, or debian_recipe or sumpubmed_recipe (other settings, see below;
#                   docs/protocol.md shows how to prepare their data)
#   --data DIR      output folder of the script above
#   --out DIR       output folder for runs (default: runs/evidence/CORPUS in the repository)
#   --results DIR   output folder for a record of each run, CORPUS/SYSTEM-SEED.json (default: OUT/results); the records
#                   behind docs/results.md are in results/
#   --systems LIST  systems from the list below (default: all)
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps of each model (default: 1500 on debian, 1300 on sumpubmed, 1400 on
#                   debian_recipe, 700 on sumpubmed_recipe)
#   --rate R        learning rate (default: as described below)
#   --rates LIST    only compare learning rates: train each of --systems once with each rate, and write the validation
#                   perplexities to OUT/results/rates.json
#   --cpu           do not use a GPU
#
# Systems, all with a soft pointer unless said otherwise:
#   etads_basic etads_focus etads_saliency etads      Table 2 of ETADS: neither mechanism, one of them, both
#   etads_options     etads with --pointer-continue and the focus that begins narrow, about the query's own position
#   layers_none layers_1-2 layers_3-4 layers_1-4      Table 6 of ETADS: which of four encoder layers have focus-attention
#   plain add_1 proj_1 attn_1                         Table 4 of the Aggregation Transformer, with 3+3 layers
#   es gated_es                                       layers shared by encoder and decoder, and the gate; 3+3 layers. As in the paper,
#                     three tables of word vectors, so 60 % more weights than plain
#   es_tied gated_es_tied   the same with one table, as in plain
#   words_lvt2k words_lvt2k_hieratt words_lvt2k_temp_att feats_lvt2k   Nallapati et al.'s, without a pointer
#   pg_coverage       the pointer-generator with coverage
#   transformer_bpe   fairseq's own transformer on 8,000 pieces of words, in the usual setting, without a pointer
#   transformer_words   fairseq's own transformer on the words of this project's systems, only if named
#   etads_content     etads on sumpubmed_recipe, with a content model that chooses the sentences of a summary, only if named
#   transformer_pointer   fairseq's example examples/pointer_generator, with its own scripts, task and criterion; 8,000 words
#   lead-8-words (debian), lead-3, oracle-3 (sumpubmed)   no training: the document's first words or sentences; the three
#                     sentences that match the summary best
#   lead-12-words textrank-14-words lexrank-14-words (debian), lead-120-words (sumpubmed, and by default sumpubmed_recipe)   the number of words that is best on the validation pairs (results/extracts.json,
#                     by scripts/evidence.py choose), only if named; TextRank and LexRank pick the most central sentence: pip install sumy
#
# Transformers have 2+2 layers of width 128 unless said otherwise, recurrent models GRUs of 128. Adam, batches of 4,000 source
# tokens (recurrent: 50 pairs), documents cut after 60 words (sumpubmed: 200). All systems
# share the length limits and n-gram blocking that suited etads-1 on the validation pairs. (821 of Debian's test pairs are
# in the sample corpus, which was used for other choices; scripts/results_page.py leaves them out of its tests.)
# On debian_recipe and sumpubmed_recipe, Transformers of this project are trained with "train.sh --recipe small --no-content"
# instead. This means Muon with a rate of 6e-3, batches of 2,000 source tokens, --pointer-continue, neighbours of words as
# inputs, and initial word vectors and an output bias from the training text. The recipe also sets the length limits of
# decoding. On sumpubmed_recipe, all trained systems read the sentences that an extractor picked (scripts/shorten.sh), and this
# project's Transformers also read their probability levels (--source-factors salience).
# The recipe can be interrupted and started again, and calls with other systems or seeds can run at the same time. It
# prints a table of all records of the corpus. python scripts/results_page.py --help explains how to test the papers'
# claims with them.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="etads_basic etads transformer_bpe transformer_pointer etads_focus etads_saliency pg_coverage etads_options plain attn_1 add_1 proj_1 es gated_es es_tied gated_es_tied"
all+=" layers_none layers_1-2 layers_3-4 layers_1-4 words_lvt2k words_lvt2k_temp_att words_lvt2k_hieratt feats_lvt2k"
corpus=debian data="" out="" results="" seeds="1" steps="" systems="" rate="" rates=""
read_options "--corpus --data --out --results --systems --seeds --steps --rate --rates --cpu" "$@"
need_choice --corpus "$corpus" debian sumpubmed debian_recipe sumpubmed_recipe
# readable: folder of the text that models read; inputs: additional options of this project's Transformers
readable=$data/text inputs=()
case $corpus in
    debian)
        words=(60 40) pieces=(80 50) usual_steps=1500
        GENERATE=(--beam 5 --min-len 4 --max-len 30 --no-repeat-ngram-size 2)
        extracts="lead-8-words" ;;
    sumpubmed)
        words=(200 100) pieces=(260 130) usual_steps=1300
        GENERATE=(--beam 5 --min-len 60 --max-len 100 --no-repeat-ngram-size 3)
        extracts="lead-3 oracle-3" ;;
    debian_recipe)
        words=(60 20) pieces=(80 30) usual_steps=1400
        GENERATE=(--beam 5 --min-len 4 --max-len 16 --no-repeat-ngram-size 2)
        extracts="lead-8-words" ;;
    sumpubmed_recipe)
        words=(230 130) pieces=(300 170) usual_steps=700 readable=$data/shortened/text inputs=(--truncate-source 230 --source-factors salience)
        GENERATE=(--beam 5 --min-len 85 --max-len 128 --no-repeat-ngram-size 3)
        extracts="lead-120-words" ;;
esac
need_prepared --data "$data" "scripts/prepare_${corpus%_recipe}.sh"
systems=${systems:-$extracts $all}
trained=""  # scripts/evidence.py checks the names of extractive systems
for system in $systems; do
    case $system in lead-* | textrank-* | lexrank-*) ;; *) trained+=" $system" ;; esac
done
need_choices --systems "$trained" "$extracts $all transformer_words etads_content"
case "$corpus $trained" in
    sumpubmed_recipe*) ;;
    *etads_content*) die "--systems etads_content: needs --corpus sumpubmed_recipe" ;;
esac
if [ -n "$rates" ]; then
    [ -z "$rate" ] || die "--rate $rate: has no effect with --rates"
    systems=$trained
fi
steps=${steps:-$usual_steps} out=${out:-$ROOT/runs/evidence/$corpus}
results=${results:-$out/results}
need_integer --steps "$steps"
cut=(--truncate-source "${words[0]}" --truncate-target "${words[1]}")
use_environment
example=$(python -c "import importlib.util; print(*importlib.util.find_spec('fairseq').submodule_search_locations)")
example+=/examples/pointer_generator

# train RUN PREPARED SEED ARCH [options of fairseq-train]
train() {
    local run=$1 prepared=$2 seed=$3 arch=$4
    shift 4
    train_once "$run" "$prepared" --arch "$arch" --optimizer adam --clip-norm 2 --max-update "$steps" --num-workers 0 \
        --seed "$seed" "${device[@]}" "$@" ${rate:+--lr "$rate"}
}

# train_transformer RUN PREPARED SEED ARCH [options of fairseq-train]: train with the optimiser and the
# sizes that all Transformers in this script share.
train_transformer() {
    local run=$1 prepared=$2 seed=$3 arch=$4
    shift 4
    train "$run" "$prepared" "$seed" "$arch" --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 128 \
        --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 --dropout 0.1 \
        --attention-dropout 0 --activation-dropout 0 --max-tokens 4000 --adam-betas '(0.9, 0.98)' --lr 3e-3 \
        --lr-scheduler polynomial_decay --warmup-updates $(((steps + 6) / 7)) --total-num-update "$steps" "$@"
}

# train_ours RUN PREPARED SEED ARCH [options of fairseq-train]: train one of this project's Transformers with a pointer.
train_ours() {
    local run=$1 prepared=$2 seed=$3 arch=$4
    shift 4
    if [[ $corpus != *_recipe ]]; then
        train_transformer "$run" "$prepared" "$seed" "$arch" "${SINUSOIDAL[@]}" --pointer soft "${cut[@]}" "$@"
        return
    fi
    supervise "$ROOT/scripts/train.sh" --recipe small --no-content --prepared "$prepared" --out "$run" --arch "$arch" --pointer soft \
        --max-update "$steps" "${device[@]}" -- --seed "$seed" "${inputs[@]}" "$@" ${rate:+--lr "$rate"}
}

# train_recurrent_system RUN SEED ARCH [options of fairseq-train]
train_recurrent_system() {
    local run=$1 seed=$2 arch=$3
    shift 3
    train "$run" "$data/prepared" "$seed" "$arch" --batch-size 50 --required-batch-size-multiple 1 --sort-within 10 \
        --encoder-embed-dim 100 --encoder-hidden-size 128 --attention-dim 128 --dropout 0.2 --optimizer lazy_adam --lr 1e-3 \
        "${cut[@]}" "$@"
}

# with_example COMMAND [ARGUMENTS]: run fairseq with the plugin from its example. Unlike this project's plugin, it cannot load
# checkpoints safely with torch 2.6 and newer. Unsafe loading is allowed, because all checkpoints were created by this script.
with_example() {
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 "$@"
}

# prepare_example: prepare data for fairseq's pointer-generator example in OUT/example. The prepared words are truncated as for this
# project's systems, and unknown words are replaced with <unk-N>.
prepare_example() {
    local dir=$out/example split cut=("$out"/example/words.{train,valid,test}.{source,target})
    mkdir -p "$dir"
    once --makes "${cut[@]}" "$dir/dict.txt" "$dir/known.txt" --reads "$data/prepared" "$data/prepared/tokens" \
        -- python "$ROOT/scripts/evidence.py" words "$dir" --prepared "$data/prepared" --lengths "${words[@]}"
    for split in train valid test; do
        once --makes "$dir/$split.source" "$dir/$split.target" --reads "$dir/words.$split".{source,target} "$dir/known.txt" \
            -- python "$example/preprocess.py" --source "$dir/words.$split.source" --target "$dir/words.$split.target" \
            --vocab "$dir/known.txt" --source-out "$dir/$split.source" --target-out "$dir/$split.target"
    done
    once --makes "$dir"/bin/{train,valid,test}.source-target.{source,target}.{bin,idx} "$dir"/bin/dict.{source,target}.txt \
        --reads "$dir"/{train,valid,test}.{source,target} "$dir/dict.txt" \
        -- fairseq-preprocess --source-lang source --target-lang target --trainpref "$dir/train" --validpref "$dir/valid" \
        --testpref "$dir/test" --srcdict "$dir/dict.txt" --tgtdict "$dir/dict.txt" --destdir "$dir/bin" > "$dir/log.txt" 2>&1
}

# summarise_by_example RUN: summarise the test documents with the options in GENERATE.
summarise_by_example() {
    local run=$1 dir=$out/example checkpoint=$1/checkpoints/checkpoint_best.pt
    with_example once --makes "$run/tokens.txt" --reads "$checkpoint" "$dir/bin" \
        -- python "$ROOT/scripts/evidence.py" search "$checkpoint" "$run/tokens.txt" --data "$dir/bin" \
        --user-dir "$example/pointer_generator_src" "${GENERATE[@]}" "${device[@]}"
    once --makes "$run/words.txt" --reads "$dir/words.test.source" "$run/tokens.txt" \
        -- python "$example/postprocess.py" --source "$dir/words.test.source" --target "$run/tokens.txt" --target-out "$run/words.txt"
    once --makes "$run/summaries.txt" --reads "$run/words.txt" "$data/prepared" "$data/prepared/bin/dict.target.txt" \
        -- python "$ROOT/scripts/evidence.py" detokenise "$run/words.txt" "$run/summaries.txt" --prepared "$data/prepared"
}

# train_system RUN SYSTEM SEED: train RUN with all settings of SYSTEM.
train_system() {
    local run=$1 system=$2 seed=$3 ours=("$1" "$data/prepared" "$3")
    local deeper=(--encoder-layers 3 --decoder-layers 3)
    case $system in
        etads_content)
            train_system "$out/etads-$seed" etads "$seed"
            mkdir -p "$run"
            ln -sfn "$(cd "$out/etads-$seed" && pwd)"/{checkpoints,finished.txt,recipe.json,train.log} "$run" ;;
        etads_options)
            train_ours "${ours[@]}" etads --pointer-continue --focus-center relative \
                --focus-initial-scope 2,2,2,half ;;
        etads*) train_ours "${ours[@]}" "$system" ;;
        layers_*) train_ours "${ours[@]}" etads --encoder-layers 4 --focus-layers "${system#layers_}" ;;
        plain) train_ours "${ours[@]}" etads_basic "${deeper[@]}" ;;
        *_1)
            train_ours "${ours[@]}" aggregation_transformer "${deeper[@]}" \
                --aggregation "${system%_1}" --aggregation-layers 1 ;;
        es_tied | gated_es_tied)
            train_ours "${ours[@]}" "${system%_tied}_transformer" "${deeper[@]}" --share-all-embeddings ;;
        es | gated_es) train_ours "${ours[@]}" "${system}_transformer" "${deeper[@]}" ;;
        transformer_words) train_transformer "${ours[@]}" transformer --share-all-embeddings "${cut[@]}" ;;
        transformer_bpe)
            train_transformer "$run" "$out/pieces/prepared" "$seed" transformer --max-tokens $((4000 * ${pieces[0]} / ${words[0]})) \
                --share-all-embeddings --truncate-source "${pieces[0]}" --truncate-target "${pieces[1]}" ;;
        transformer_pointer)
            prepare_example
            with_example train_transformer "$run" "$out/example" "$seed" transformer_pointer_generator --user-dir "$example/pointer_generator_src" \
                --task translation --criterion cross_entropy --required-batch-size-multiple 1 --share-all-embeddings --source-position-markers "${words[0]}" \
                --alignment-layer -1 --alignment-heads 1 --max-source-positions $((words[0] + 4)) --max-target-positions 200 ;;
        pg_coverage)
            train_recurrent_system "$run" "$seed" pg_coverage --coverage-loss 1 --coverage-loss-start $((steps * 4 / 5)) ;;
        feats_lvt2k) train_recurrent_system "$run" "$seed" feats_lvt2k --source-factors tf:10,idf:10 ;;
        *) train_recurrent_system "$run" "$seed" "$system" ;;
    esac
}

# summarise_system RUN SYSTEM: summarise the test documents, and compute the likelihoods of the references.
summarise_system() {
    local run=$1 system=$2 prepared=$data/prepared options=()
    checkpoint=best
    [ "$system" != transformer_pointer ] || { summarise_by_example "$run"; return; }
    case $system in
        transformer_bpe) prepared=$out/pieces/prepared ;;
        pg_coverage) checkpoint=last ;;  # the checkpoint with the best likelihood may predate the coverage loss
        *lvt2k*) options=(-- --replace-unknown) ;;
    esac
    local search=("${GENERATE[@]}")
    [ "$system" != etads_content ] || search=(--min-len 75 --content "$data/shortened/extractor")
    summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" "${search[@]}" "${device[@]}" \
        --checkpoint "$run/checkpoints/checkpoint_$checkpoint.pt" "${options[@]}"
    supervise etads-likelihood "$run" --prepared "$prepared" --checkpoint "$checkpoint" ${device[@]+--device cpu}
}

# record_system RUN SYSTEM SEED [CHECKPOINT]: score the summaries, and write a record of the results.
record_system() {
    local run=$1 system=$2 seed=$3 text=$data/text reads=("$1"/{rouge.json,scores.jsonl,analysis.json}) word
    once --makes "$run/rouge.json" "$run/scores.jsonl" --reads "$run/summaries.txt" "$text/test.target" \
        -- etads-rouge "$run/summaries.txt" "$text/test.target" --json "$run/rouge.json" --per-example "$run/scores.jsonl"
    once --makes "$run/analysis.json" --reads "$run/summaries.txt" "$text"/test.{source,target} \
        -- etads-analyse --source "$text/test.source" --reference "$text/test.target" --system "summaries=$run/summaries.txt" \
        --json "$run/analysis.json" > /dev/null
    case $system in
        etads_basic | etads_content) ;;
        etads* | layers_*)
            once --makes "$run/attention.json" --reads "$run/checkpoints/checkpoint_best.pt" "$data/prepared/bin" \
                -- python "$ROOT/scripts/attention_figures.py" "$run" --prepared "$data/prepared" --json "$run/attention.json" ;;
    esac
    for word in attention.json finished.txt train.log; do [ ! -f "$run/$word" ] || reads+=("$run/$word"); done
    for word in "$run"/likelihood*; do [ ! -f "$word" ] || reads+=("$word"); done
    once --record "$run/record.made.json" --makes "$results/$corpus/$system-$seed.json" --reads "${reads[@]}" \
        -- python "$ROOT/scripts/evidence.py" record "$run" --corpus "$corpus" --system "$system" --seed "$seed" --results "$results" \
        --command "scripts/reproduce/evidence.sh --corpus $corpus --systems $system --seeds $seed --steps $steps${rate:+ --rate $rate}" \
        ${4:+--checkpoint "$4"}
}

# The system transformer_bpe needs separate prepared data, with BPE.
case " $systems " in *" transformer_bpe "*) supervise etads-prepare "$readable" "$out/pieces/prepared" --tokens bpe --size 8000 ;; esac

for system in $systems; do
    case $system in lead* | oracle* | textrank* | lexrank*) run=$out/$system-1 ;; *) continue ;; esac
    mkdir -p "$run"
    once --makes "$run/summaries.txt" --reads "$data/text"/test.{source,target} \
        -- python "$ROOT/scripts/evidence.py" extract "$run/summaries.txt" --kind "$system" --text "$data/text"
    record_system "$run" "$system" 1
done
if [ -n "$rates" ]; then
    runs=()
    for system in $systems; do
        for rate in $rates; do
            runs+=("$out/rates/$steps/$system-$rate")
            train_system "$out/rates/$steps/$system-$rate" "$system" "${seeds%% *}"
        done
    done
    exec python "$ROOT/scripts/evidence.py" rates "${runs[@]}" --results "$results"
fi
for seed in $seeds; do
    for system in $systems; do
        run=$out/$system-$seed
        case $system in lead* | oracle* | textrank* | lexrank*) continue ;; esac
        train_system "$run" "$system" "$seed"
        summarise_system "$run" "$system"
        record_system "$run" "$system" "$seed" "$checkpoint"
    done
done
python "$ROOT/scripts/results_page.py" --results "$results" --table "$corpus"
