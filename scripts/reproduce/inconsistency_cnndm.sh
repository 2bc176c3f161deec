#!/usr/bin/env bash
# Hsu et al. 2018 on CNN/Daily Mail: an extractor and an abstractor, trained separately and then jointly with the inconsistency loss.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm50k -- --size 49996 \
#       --source-sentence-marks
#   scripts/reproduce/inconsistency_cnndm.sh --data data/cnndm50k [options] [-- options of fairseq-train]
#
#   --data DIR              output folder of the first command; 50,000 words, including the four special symbols
#   --out DIR               output folder (default: runs/inconsistency_cnndm in the repository)
#   --rows LIST             rows of the table below to run (default: both)
#   --seeds LIST            random seeds for training (default: "1")
#   --cpu                   do not use a GPU
#   --extractor-steps N     number of training steps of the extractor (default: 50000)
#   --stages LIST           length limits of documents and summaries in each training stage of the abstractor, in
#                           tokens (default: "50/15 100/25 150/40 200/50 250/60 300/80 350/100 400/100")
#   --stage-steps N, --steps N   number of steps in each stage except the last, and in all stages together (default:
#                           10000, 80000)
#   --coverage-steps N      number of further steps of the abstractor, with coverage (default: 1000)
#   --joint-steps N         number of steps of joint training (default: 80000)
#   Options after -- are for the abstractor and for joint training.
#
#   ROW          system                                                                          published R-1 / R-2 / R-L
#   two-stage    the abstractor on the extractor's sentences: probability above 0.5, at least 5 and
#                at most 30
#   end-to-end   both together, each word's attention times the probability of its sentence      40.68 / 17.97 / 37.13
#
# As in the paper and its code, the extractor reads 50 sentences of 50 words, with word vectors of width 128 and GRUs of
# 2 x 200. It is trained with Adagrad, a learning rate of 0.15 and batches of 64, and selected by validation loss; its
# labels are the sentences that greedily raise ROUGE-L recall. The abstractor is See et al.'s model, trained on these
# labelled sentences instead of documents; its last checkpoint is used. Joint training uses documents of 600 words,
# Adagrad with a learning rate of 0.01 and new accumulators, and batches of 8. The joint loss is 5 extraction +
# likelihood + coverage + inconsistency over the three words with the most attention, and the checkpoint is selected by
# ROUGE-L of greedy summaries of validation documents. Gradients are always clipped to a norm of 2. Decoding uses a beam
# of 4 and 35 to 120 words.
#
# Deviations: the text comes from scripts/prepare_cnndm.sh, with a mark between sentences, which the abstractor reads
# and which belongs to the sentence before it. Extracts are detokenised and prepared again. Validation ROUGE covers 200
# documents, and is also computed at the end of each epoch. The search never writes <unk>.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json, and the extractor's AUC and F1 in DIR/extractor-SEED/report.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="two-stage end-to-end"
data="" out=$ROOT/runs/inconsistency_cnndm rows=$all seeds="1" extractor_steps=50000 steps=80000 stage_steps=10000
coverage_steps=1000 joint_steps=80000 stages="50/15 100/25 150/40 200/50 250/60 300/80 350/100 400/100"
read_options "--data --out --rows --seeds --cpu --extractor-steps --stages --stage-steps --steps --coverage-steps --joint-steps --" \
    "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" extractor_steps coverage_steps joint_steps
read_stages
prepared=$data/prepared read=2500  # 50 sentences of 50 words
adagrad=(--required-batch-size-multiple 1 --optimizer lazy_adagrad --initial-accumulator 0.1 --clip-norm 2)

# extract FOLDER SPLIT READS [options of etads-extract]: extract sentences from the documents of a split, based on the labels or
# probabilities in the file READS. Write the extracts and the summaries of the split to FOLDER as text.
extract() {
    local folder=$1 split=$2 reads=$3
    shift 3
    mkdir -p "$folder"
    once --record "$folder.$split.made.json" --makes "$folder/$split.source" --reads "$prepared" "$reads" \
        -- etads-extract "$prepared" "$folder/$split.source" --subset "$split" --truncate-source "$read" "$@"
    ln -sfn "$(cd "$data" && pwd)/text/$split.target" "$folder/$split.target"
}

# train_extractor RUN SEED: train the extractor in RUN, and write its probabilities for validation and test documents.
train_extractor() {
    train_selector "$1" "$prepared" "$out/labels" --arch sentence_extractor --truncate-source "$read" --batch-size 64 \
        --max-update "$extractor_steps" --seed "$2"
}

# train_abstractor RUN SEED: train the abstractor on labelled sentences, in stages, and then with coverage.
train_abstractor() {
    train_pointer_generator "$out/pointer_generator-$2" "$out/labelled/prepared" "$2"
    train_stage "$1" "$out/labelled/prepared" "${lengths[${#lengths[@]} - 1]}" --arch pointer_generator_coverage --seed "$2" \
        --coverage-loss 1 --init-from "$out/pointer_generator-$2/checkpoints/checkpoint_last.pt" --max-update "$coverage_steps"
}

# train_together RUN SEED: train the joint model, starting from the extractor and the abstractor.
train_together() {
    train_once "$1" "$prepared" --arch unified_summarizer --init-from "$out/abstracter-$2/checkpoints/checkpoint_last.pt" \
        --extractor "$out/extractor-$2/checkpoints/checkpoint_best.pt" --labels "$out/labels" --truncate-source 600 \
        --truncate-target 100 --no-end-if-cut --length-normalised --extraction-loss 5 --coverage-loss 1 --inconsistency-loss 1 \
        --lr 0.01 "${adagrad[@]}" --batch-size 8 --sort-within 100 --eval-rouge --eval-rouge-args '{"beam":1}' \
        --best-checkpoint-metric rougeL --maximize-best-checkpoint-metric --max-update "$joint_steps" --seed "$2" \
        "${device[@]}" "${more[@]}"
}

say_vocabulary "$prepared" 49996 49996
label_once "$out/labels" extract "train valid test" --truncate-source "$read"
for split in train valid test; do
    extract "$out/labelled/text" "$split" "$out/labels/labels.sentences.$split" --by labels --labels "$out/labels"
done
supervise etads-prepare "$out/labelled/text" "$out/labelled/prepared" --like "$prepared"
for seed in $seeds; do
    train_extractor "$out/extractor-$seed" "$seed"
    train_abstractor "$out/abstracter-$seed" "$seed"
    for row in $rows; do
        run=$out/$row-$seed source=$prepared decoding=()
        if [ "$row" = two-stage ]; then
            extract "$run/text" test "$out/extractor-$seed/probabilities.sentences.test" --by selector \
                --selection "$out/extractor-$seed" --threshold 0.5 --at-least 5 --sentences 30
            source=$run/prepared
            supervise etads-prepare "$run/text" "$source" --like "$prepared"
            share_training "$run" "$out/abstracter-$seed"
            decoding=(--checkpoint "$run/checkpoints/checkpoint_last.pt")
        else
            train_together "$run" "$seed"
        fi
        summarise_once "$run" "$run/summaries.txt" --prepared "$source" --beam 4 --min-len 35 --max-len 120 \
            "${decoding[@]}" "${device[@]}"
        score_once "$run" "$data/text"
    done
done
score_table "$out" "$rows" "$seeds"
