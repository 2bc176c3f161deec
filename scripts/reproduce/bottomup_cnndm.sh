#!/usr/bin/env bash
# Bottom-Up (Gehrmann, Deng, Rush 2018) on CNN/Daily Mail: a pointer model that copies only words that a tagger has chosen.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm
#   scripts/reproduce/bottomup_cnndm.sh --data data/cnndm [options] [-- options of fairseq-train for the summariser]
#
#   --data DIR      output folder of scripts/prepare_cnndm.sh
#   --out DIR       output folder (default: runs/bottomup_cnndm in the repository)
#   --rows LIST     rows of the table below to run (default: both)
#   --arch NAME     architecture of the summariser: pg (default, recurrent), or any Transformer listed by etads-models,
#                   such as etads or etads_basic
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps of the summariser (default: 200000, as in the paper)
#   --tagger-epochs N   number of training epochs of the tagger (default: 10, as in the paper)
#   --cpu           do not use a GPU
#
#   ROW             system                                                              published F1, R-1 / R-2 / R-L
#   summariser      the summariser alone, with the paper's penalties                    39.02 / 17.25 / 36.05
#   bottom-up       the same model with the tagger's mask, threshold 0.15, factor 2     41.22 / 18.68 / 38.34
#
# Both rows use the same model, which is trained once. As in the paper, documents have 400 words and summaries 100, and
# one dictionary contains 50,000 words. The summariser has encoder states of 2 x 256, decoder states of 512, word
# vectors of width 128 and no coverage. It is trained with Adagrad, a learning rate of 0.15, gradients clipped to a norm
# of 2, batches of 16 and no dropout. Decoding uses a beam of 10, at least 35 words and three sentences, a length
# penalty of 0.9 (Wu) and a coverage penalty of 5 at every step, and blocks repeated trigrams unless they contain a full
# stop or the mark between sentences. The tagger is the released one without ELMo (word vectors of width 50, spelling
# features, a two-layer LSTM of 2 x 100), trained with Adagrad and batches of 32 for at most 10 epochs.
#
# Transformers are trained like the paper's CopyTransformer: Adam (0.9, 0.998), twice Noam's learning rate with 8,000
# steps of warm-up (peak 9.88e-4), 4 x 4,096 tokens, label smoothing of 0.1, and dropout of 0.2. The published scores
# for --arch etads_basic are 39.25/17.54/36.45 and 40.96/18.38/38.16.
#
# Deviations: the summariser is See et al.'s (pointer_generator) with wider states. The tagger published in the paper
# uses ELMo and GloVe and is trained on 100,000 pairs; ours is trained on all pairs. A mark separates the sentences of
# summaries, instead of tags around each sentence. ROUGE is computed by etads-rouge.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json, and the tagger's AUC and F1 in DIR/tagger-SEED/report.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="summariser bottom-up"
data="" out=$ROOT/runs/bottomup_cnndm rows=$all arch=pg seeds="1" steps=200000 tagger_epochs=10
read_options "--data --out --rows --arch --seeds --steps --tagger-epochs --cpu --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" steps tagger_epochs
prepared=$data/prepared

# train_summariser RUN SEED
train_summariser() {
    local lengths=(--truncate-source 400 --truncate-target 100)
    if [ "$arch" = pg ]; then
        train_recurrent "$1" "$prepared" --arch pointer_generator --decoder-hidden-size 512 --batch-size 16 --length-normalised \
            --optimizer lazy_adagrad --lr 0.15 --initial-accumulator 0.1 --clip-norm 2 "${lengths[@]}" --max-update "$steps" \
            --seed "$2" "${device[@]}" "${more[@]}"
    else
        train_prepared --prepared "$prepared" --out "$1" --arch "$arch" --pointer soft "${lengths[@]}" --max-update "$steps" \
            --max-tokens 4096 "${device[@]}" -- --update-freq 4 --lr 9.88e-4 --label-smoothing 0.1 --dropout 0.2 \
            --seed "$2" "${more[@]}"
    fi
}

# train_tagger RUN SEED: train the tagger in RUN, and write its probabilities for validation and test documents.
train_tagger() {
    label_once "$prepared/bin" words "train valid test"
    train_selector "$1" "$prepared" "$prepared/bin" --arch word_tagger --max-epoch "$tagger_epochs" --best-checkpoint-metric auc \
        --maximize-best-checkpoint-metric --validate-interval-updates -1 --patience 10 --seed "$2"
}

DECODE=(--beam 10 --min-len 35 --max-len 100 --length-penalty-type wu --lenpen 0.9 --coverage-penalty 5 --no-repeat-ngram-size 3
    "${device[@]}" -- --stepwise-coverage-penalty --ngram-ignore-tokens ". <q>" --min-sentences 3)
for seed in $seeds; do
    train_summariser "$out/summariser-$seed" "$seed"
    for row in $rows; do
        run=$out/$row-$seed selecting=()
        if [ "$row" = bottom-up ]; then
            train_tagger "$out/tagger-$seed" "$seed"
            selecting=(--selection "$out/tagger-$seed" --selection-threshold 0.15 --selection-factor 2)
            share_training "$run" "$out/summariser-$seed"
        fi
        summarise_and_score "$run" "$data" "${DECODE[@]}" "${selecting[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
