#!/usr/bin/env bash
# Chen and Bansal 2018 on CNN/Daily Mail: an extractor picks sentences, an abstractor rewrites them, and rewards train the extractor.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm30k -- --size 29996 \
#       --source-sentence-marks
#   scripts/reproduce/rewrite_cnndm.sh --data data/cnndm30k [options] [-- options of fairseq-train]
#
#   --data DIR        output folder of the first command; 30,000 words, including the four special symbols
#   --out DIR         output folder (default: runs/rewrite_cnndm in the repository)
#   --rows LIST       rows of the table below to run (default: all)
#   --seeds LIST      random seeds for training (default: "1")
#   --cpu             do not use a GPU
#   --vectors FILE    initial word vectors with 128 dimensions, in word2vec's text format
#   --steps N         maximum number of steps of each training run (default: 300000); all runs stop earlier, when
#                     validation no longer improves. Options after -- apply to all three runs.
#
#   ROW       extractor trained by    summaries                                                  published R-1 / R-2 / R-L
#   labels    labels alone            its first five sentences, each rewritten greedily          38.38 / 16.12 / 36.04
#   rewards   labels, then rewards    its sentences until it stops, rewritten greedily           40.03 / 17.61 / 37.58
#   rerank    the same                the same with a diverse beam of 5, and the combination that
#                                     repeats the fewest bigrams                                 40.88 / 17.80 / 38.54
#
# As in the paper and its code, sentences are paired by ROUGE-L recall. The abstractor has width 256 and word vectors of
# width 128, and is trained on document sentences of up to 100 words and summary sentences of up to 30. The extractor
# reads 60 sentences of 100 words, with 3 x 100 filters and LSTMs of width 256. Both are trained with Adam, a learning
# rate of 0.001, batches of 32 and gradients clipped to a norm of 2. They are validated every 3,000 steps; the learning
# rate is halved after a validation without a better loss, and training stops after 5 such validations. Training with
# rewards uses a learning rate of 0.0001 and validates every 1,000 steps by ROUGE-1 of greedy summaries, and stops after
# 3 validations without an improvement.
#
# Deviations: without --vectors, word vectors are initialised at random (the paper: word2vec on the training text). The
# end of an epoch counts as one more validation. The text comes from scripts/prepare_cnndm.sh, and sentences are
# detokenised and prepared again. The five sentences in the first row are this recipe's choice. docs/rewrite.md lists
# the deviations of the models.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="labels rewards rerank"
data="" out=$ROOT/runs/rewrite_cnndm rows=$all seeds="1" steps=300000 vectors=""
read_options "--data --out --rows --seeds --cpu --vectors --steps --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" steps
[ -z "$vectors" ] || [ -f "$vectors" ] || die "--vectors $vectors: no such file"
prepared=$data/prepared read=6000  # 60 sentences of 100 words
vectors=(${vectors:+--encoder-embed-path "$vectors"})

# train PART SEED EVERY PATIENCE [options of fairseq-train]: train a part, validate every EVERY steps, and stop after PATIENCE
# validations without improvement.
train() {
    local part=$1 seed=$2 every=$3 patience=$4
    shift 4
    train_rewriter "$part" "$seed" --lr-scheduler reduce_lr_on_validation --lr-shrink 0.5 --validate-interval-updates "$every" \
        --patience "$patience" --max-update "$steps" "$@"
}

say_vocabulary "$prepared" 29996 29996
prepare_rewriting "$read"
for seed in $seeds; do
    train abstractor "$seed" 3000 5 "${vectors[@]}"
    train extractor "$seed" 3000 5 --learnt-start --truncate-source "$read" "${vectors[@]}"
    for row in $rows; do
        [ "$row" = labels ] || train actor "$seed" 1000 3 --learnt-start --truncate-source "$read"
        rewrite_row "$row" "$seed" 5 words
    done
done
score_table "$out" "$rows" "$seeds"
