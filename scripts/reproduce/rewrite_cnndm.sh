#!/usr/bin/env bash
# Chen and Bansal 2018 on CNN/Daily Mail: an extractor takes sentences, an abstractor rewrites them, rewards teach the extractor.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm30k -- --size 29996 \
#       --source-sentence-marks
#   scripts/reproduce/rewrite_cnndm.sh --data data/cnndm30k [options] [-- options of fairseq-train]
#
#   --data DIR        what the first command made; with the four special symbols the words are 30,000
#   --out DIR         default: runs/rewrite_cnndm in the repository
#   --rows LIST       of the rows below; default: all
#   --seeds LIST, --cpu     default: "1", and a GPU
#   --vectors FILE    word vectors of 128 to begin with, in word2vec's text format
#   --steps N         most steps of each training (default: 300000); all end sooner, when validation does not improve
#   Options after -- are those of all three trainings.
#
#   ROW       extractor trained by    summaries                                              published R-1 / R-2 / R-L
#   labels    labels alone            its first five sentences, each rewritten greedily          38.38 / 16.12 / 36.04
#   rewards   labels, then rewards    its sentences until it stops, rewritten greedily           40.03 / 17.61 / 37.58
#   rerank    the same                the same with a diverse beam of 5, and of all combinations
#                                     that which repeats the fewest bigrams                      40.88 / 17.80 / 38.54
#
# As in the paper and its code: pairs of sentences by ROUGE-L recall; an abstractor of 256 with vectors of 128, on sentences of 100
# and 30 words; an extractor that reads 60 sentences of 100 words, 3 x 100 filters, LSTMs of 256; both with Adam, rate 0.001, batches
# of 32, gradient norm at most 2, validated every 3,000 steps, the end after 5 validations without a better loss. Rewards: rate
# 0.0001, validated every 1,000 steps by ROUGE-1 of greedy summaries, the end after 3 without a better one.
# Deviations: the rate is halved at the end of an epoch without a better validation and not after each validation; vectors begin at
# random without --vectors (the paper: word2vec on the training text); text is that of scripts/prepare_cnndm.sh, and sentences are
# detokenised and prepared again; five sentences in the first row are this recipe's choice; docs/rewrite.md lists those of the models.
# Can be interrupted and started again. Prints a Markdown table; the scores are in DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="labels rewards rerank"
data="" out=$ROOT/runs/rewrite_cnndm rows=$all seeds="1" steps=300000 vectors=""
read_options "--data --out --rows --seeds --cpu --vectors --steps --" "$@"
need_choices --rows "$rows" "$all"
need_prepared --data "$data" scripts/prepare_cnndm.sh
need_integer --steps "$steps"
[ -z "$vectors" ] || [ -f "$vectors" ] || die "--vectors $vectors: no such file"
use_environment
prepared=$data/prepared read=6000  # 60 sentences of 100 words
sentences=$out/sentences/prepared
on_cpu=()
[ ${#device[@]} -eq 0 ] || on_cpu=(--device cpu)

# train RUN PREPARED RATE EVERY PATIENCE [options of fairseq-train]: train with Adam, validating every EVERY steps, until PATIENCE
# validations have not been better.
train() {
    local run=$1 prepared=$2 rate=$3 every=$4 patience=$5
    shift 5
    train_once "$run" "$prepared" --optimizer adam --lr "$rate" --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 \
        --clip-norm 2 --batch-size 32 --required-batch-size-multiple 1 --validate-interval-updates "$every" \
        --patience "$patience" --max-update "$steps" ${device[@]+"${device[@]}"} "$@" ${more[@]+"${more[@]}"}
}

# train_parts SEED: the abstractor, and the extractor by labels.
train_parts() {
    local begin=()
    [ -z "$vectors" ] || begin=(--encoder-embed-path "$vectors")
    train "$out/abstractor-$1" "$sentences" 1e-3 3000 5 --arch sentence_rewriter --truncate-source 100 --truncate-target 30 \
        --seed "$1" ${begin[@]+"${begin[@]}"}
    train "$out/extractor-$1" "$prepared" 1e-3 3000 5 --arch pointer_extractor --criterion extractor_nll --labels "$out/labels" \
        --truncate-source "$read" --seed "$1" ${begin[@]+"${begin[@]}"}
}

# train_by_rewards SEED: the extractor goes on from what labels have taught it.
train_by_rewards() {
    train "$out/actor-$1" "$prepared" 1e-4 1000 3 --arch pointer_extractor --learn-to-stop --criterion extractor_rl \
        --abstractor "$out/abstractor-$1/checkpoints/checkpoint_best.pt" --truncate-source "$read" --truncate-target 1000 \
        --init-from "$out/extractor-$1/checkpoints/checkpoint_best.pt" --seed "$1"
}

say_vocabulary "$prepared" 29996 29996
[ -f "$out/labels/labels.sentences.valid" ] ||
    supervise etads-labels "$prepared" --kind match --truncate-source "$read" --subset train valid --out "$out/labels"
[ -f "$out/sentences/text/valid.target" ] ||
    supervise etads-labels "$prepared" --pairs "$out/sentences/text" --truncate-source "$read" --subset train valid
supervise etads-prepare "$out/sentences/text" "$sentences" --like "$prepared"
for seed in $seeds; do
    train_parts "$seed"
    for row in $rows; do
        run=$out/$row-$seed extractor=$out/actor-$seed decoding=(--beam 1)
        if [ "$row" = labels ]; then
            extractor=$out/extractor-$seed decoding=(--beam 1 --sentences 5)
        else
            train_by_rewards "$seed"
            [ "$row" != rerank ] || decoding=(--beam 5 --diversity 1 --rerank)
        fi
        share_training "$run" "$extractor"
        [ "$run/summaries.txt" -nt "$run/finished.txt" ] ||
            supervise etads-rewrite "$prepared" "$run/summaries.txt" --extractor "$extractor" \
                --abstractor "$out/abstractor-$seed" "${decoding[@]}" ${on_cpu[@]+"${on_cpu[@]}"}
        score_once "$run" "$data/text"
    done
done
score_table "$out" "$rows" "$seeds"
