#!/usr/bin/env bash
# Nallapati et al. 2016, Table 3: CNN/Daily Mail with and without hierarchical and temporal attention; and See et al. 2017.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm -- \
#       --source-sentence-marks --size 150000 --target-size 60000
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm50k
#   scripts/reproduce/nallapati_cnndm.sh --data data/cnndm --pg-data data/cnndm50k [options] [-- options of fairseq-train]
#
#   --data DIR       output folder of the first command, for Nallapati et al.'s rows
#   --pg-data DIR    output folder of the second command, for pg_coverage, which has 50,000 words
#   --vectors FILE   initial word2vec vectors with 100 dimensions, in text format (default: random vectors)
#   --out DIR        output folder (default: runs/nallapati_cnndm in the repository)
#   --rows LIST      rows to run, out of words_lvt2k words_lvt2k_hieratt words_lvt2k_temp_att pg_coverage (default: all)
#   --seeds LIST     random seeds for training (default: "1")
#   --cpu            do not use a GPU
#
# Published R-1 / R-2 / R-L (anonymised text): words_lvt2k 32.49 / 11.84 / 29.47, words_lvt2k_hieratt 32.75 / 12.21 / 29.01,
# words_lvt2k_temp_att 35.46 / 13.30 / 32.65; See et al. (plain text): pg_coverage 39.53 / 17.28 / 36.38.
#
# As in the paper, the model has width 200 and word vectors of width 100; documents have 800 words and summaries 100.
# Training uses batches of 50, sorted by length within every ten batches, and Adadelta for 35 epochs; decoding uses a
# beam of 5. pg_coverage is trained with Adagrad (learning rate 0.15, accumulators from 0.1), gradients clipped to a
# norm of 2, batches of 16 and documents of 400 words, for 230,000 steps and 3,000 more with the coverage loss. It is
# decoded with a beam of 4 and 35 to 120 words.
#
# Deviations: the text is not anonymised. One dictionary contains 150,000 words, but only the 60,000 most frequent words
# of summaries can be generated. In all of Nallapati et al.'s rows, marks separate the sentences of documents. The
# paper's learning rate of 0.001 is ignored (docs/recurrent.md explains why). Gradients are clipped to a norm of 1.
# pg_coverage has GRUs instead of LSTMs, one table for word vectors and output layer, and Nallapati et al.'s readout and
# attention (docs/recurrent.md); it reads documents of full length from the first step, and never writes <unk>.
#
# The recipe can be interrupted and started again. It prints Markdown tables.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="words_lvt2k words_lvt2k_hieratt words_lvt2k_temp_att pg_coverage"
data="" pg_data="" vectors="" out=$ROOT/runs/nallapati_cnndm rows=$all seeds="1"
read_options "--data --pg-data --vectors --out --rows --seeds --cpu --" "$@"
need_choices --rows "$rows" "$all"
[[ " $rows " != *" pg_coverage "* ]] || need_prepared --pg-data "$pg_data" scripts/prepare_cnndm.sh
[[ " $rows " != *" words_"* ]] || need_prepared --data "$data" scripts/prepare_cnndm.sh
use_environment
begin=()
[ -z "$vectors" ] || begin=(--encoder-embed-path "$vectors" --decoder-embed-path "$vectors")

systems=()
for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed prepared=$data/prepared words="150000 60000"
        decoding=(--beam 5 --max-len 100)
        options=(--encoder-embed-dim 100 --encoder-hidden-size 200 --truncate-source 800 --truncate-target 100 --max-epoch 35
            "${ADADELTA[@]}" "${begin[@]}")
        if [ "$row" = pg_coverage ]; then
            prepared=$pg_data/prepared words="50000 50000"
            # The last checkpoint is used, because the checkpoint with the best likelihood may predate the coverage loss.
            decoding=(--beam 4 --min-len 35 --max-len 120 --checkpoint "$run/checkpoints/checkpoint_last.pt")
            options=(--batch-size 16 --truncate-source 400 --truncate-target 100 --max-update 233000 --coverage-loss 1
                --coverage-loss-start 230000 --optimizer lazy_adagrad --lr 0.15 --initial-accumulator 0.1 --clip-norm 2)
        fi
        # shellcheck disable=SC2086  # must be split into two numbers
        say_vocabulary "$prepared" $words
        train_recurrent "$run" "$prepared" --arch "$row" "${options[@]}" --seed "$seed" \
            "${device[@]}" "${more[@]}"
        summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" "${decoding[@]}" "${device[@]}"
        systems+=(--system "$row-$seed=$run/summaries.txt")
    done
done
text=${data:-$pg_data}/text
etads-analyse --source "$text/test.source" --reference "$text/test.target" "${systems[@]}" \
    --json "$out/analysis.json"
