#!/usr/bin/env bash
# Compare small versions of the systems in the papers' Gigaword tables on the Debian sample corpus, with equal data and steps.
#
#   scripts/reproduce/debian_headlines.sh [--out DIR] [--steps N] [--seeds "1 2"] [--archs "gru_seq2seq ras_elman"]
#
#   --out DIR    output folder (default: runs/debian_headlines in the repository)
#   --text DIR   output folder of etads-debian (default: the sample corpus)
#   --size N     vocabulary size (default: 8000; smaller if the text is smaller than the sample corpus)
#   --steps N    number of training steps of each model (default: 1500, 3 to 10 minutes on one core)
#   --seeds LIST, --archs LIST   random seeds and architectures (default: "1" and all seventeen)
#
# The systems are the recurrent presets of Nallapati et al. with gru_seq2seq (Tian et al.'s Seq2seq) and pg_coverage;
# ras_lstm and ras_elman; abs; abs-plus, the same model with extractive features in its search; entail (Entail-s2s);
# convs2s; and Tian et al.'s transformer, es_transformer and gated_es_transformer.
#
# Deviations from the papers (each system also has its own recipe): another corpus; width 128 and word vectors of width
# 100 (2+2 or 3+3 layers of width 128); 8,000 known words in one dictionary; 50 pairs per step; Adam with a learning
# rate of 1e-3 (Transformers: warm-up to 3e-3 and decay to 0); dropout of 0.2 in models that have dropout; a fixed
# number of steps; no pretrained word vectors; only TF and IDF as factors; a beam of 5; at least 3 words; and unknown
# words replaced with the most attended words. pg_coverage copies unknown words instead. abs and abs-plus write 7 words,
# without repeated or unknown words; the weights of the features are tuned on the validation pairs. entail uses four
# fifths of its steps to alternate summarisation with synthetic entailment pairs. In the remaining steps, it is trained
# with rewards from an entailment model that was trained on these pairs. The results show whether the mechanisms can be
# trained and roughly which effects they have, not their scores on Gigaword.
#
# The recipe can be interrupted and started again. It prints Markdown tables: properties of the summaries ("copied" is
# the source copy rate), and paired tests of each system against gru_seq2seq, also over seeds if there are several.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_headlines steps=1500 seeds="1" size=8000
systems="gru_seq2seq words_lvt2k words_lvt5k words_lvt2k_hieratt feats_lvt2k feats_lvt2k_ptr words_lvt2k_temp_att pg_coverage"
systems+=" ras_lstm ras_elman abs abs-plus entail convs2s transformer es_transformer gated_es_transformer"
read_comparison --archs "$@"
prepared=$out/prepared
supervise etads-prepare "$text" "$prepared" --tokens word --size "$size" --source-sentence-marks --factors tf idf

SMALL=(--encoder-embed-dim 100 --encoder-hidden-size 128)
ENTAIL=("${SMALL[@]}" --readout-dim 128 --dropout 0.2)
CONVOLUTIONS="[(128, 3)] * 3"

# train_like_the_others RUN ARCH SEED STEPS [options of fairseq-train]
train_like_the_others() {
    local run=$1 arch=$2 seed=$3 steps=$4
    shift 4
    train_once "$run" "$prepared" --arch "$arch" --batch-size 50 --required-batch-size-multiple 1 --truncate-source 60 \
        --truncate-target 40 --optimizer adam --lr 1e-3 --clip-norm 2 --max-update "$steps" --num-workers 0 --cpu --seed "$seed" "$@"
}

# train_transformer RUN ARCH SEED [options of fairseq-train]
train_transformer() {
    local run=$1 arch=$2 seed=$3
    shift 3
    train_like_the_others "$run" "$arch" "$seed" "$steps" --encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 128 \
        --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --decoder-attention-heads 4 --dropout 0.2 "${SINUSOIDAL[@]}" \
        --lr 3e-3 --lr-scheduler polynomial_decay --warmup-updates $(((steps + 6) / 7)) --total-num-update "$steps" \
        --adam-betas '(0.9, 0.98)' "$@"
}

# train_entail RUN SEED: train the model with the entailment pairs in both stages, as in entail_gigaword.sh.
train_entail() {
    local run=$1 seed=$2 first=$((steps > 4 ? steps * 4 / 5 : 1))
    local every=$((first > 12 ? first / 12 : 1))  # 100 of 1,200 in the paper
    train_nli "$text" "$out/nli" --words moses --device cpu  # the same tokenisation as in the prepared data
    train_like_the_others "$run/beside_entailment" entail_s2s "$seed" "$first" "${ENTAIL[@]}" --auxiliary-task entailment \
        --auxiliary-data "$out/nli/pairs" --auxiliary-words moses --auxiliary-every "$every:$(((every + 9) / 10))"
    train_like_the_others "$run" entail_s2s "$seed" $((steps > first ? steps - first : 1)) "${ENTAIL[@]}" \
        --finetune-from-model "$run/beside_entailment/checkpoints/checkpoint_best.pt" --criterion summarization_raml \
        --raml-reward entail --raml-entailment-model "$out/nli/model" --raml-temperature 0.85 --raml-samples 5
}

# train_system RUN ARCH SEED
train_system() {
    local run=$1 arch=$2 seed=$3
    case $arch in
        feats*) train_small_recurrent "$steps" "$run" "$prepared" "$arch" --seed "$seed" --source-factors tf:10,idf:10 ;;
        words* | gru* | pg*) train_small_recurrent "$steps" "$run" "$prepared" "$arch" --seed "$seed" ;;
        ras*) train_like_the_others "$run" "$arch" "$seed" "$steps" --sort-within 10 --encoder-embed-dim 128 \
            --encoder-hidden-size 128 --dropout 0.2 ;;
        abs) train_like_the_others "$run" abs "$seed" "$steps" --encoder-embed-dim 100 --decoder-embed-dim 100 \
            --decoder-context-dim 100 --decoder-hidden-size 128 ;;
        entail) train_entail "$run" "$seed" ;;
        convs2s) train_like_the_others "$run" convs2s_gigaword "$seed" "$steps" --encoder-embed-dim 128 --decoder-embed-dim 128 \
            --decoder-out-embed-dim 128 --encoder-layers "$CONVOLUTIONS" --decoder-layers "$CONVOLUTIONS" --dropout 0.2 ;;
        transformer) train_transformer "$run" es_transformer "$seed" --no-share-encoder-decoder-layers ;;
        *es_transformer) train_transformer "$run" "$arch" "$seed" ;;
    esac
}

summaries=()
for seed in $seeds; do
    for arch in $systems; do
        run=$out/$arch-$seed options=(--min-len 3 --max-len 30) decoding=()
        if [ "$arch" = abs-plus ]; then
            train_system "$out/abs-$seed" abs "$seed"
            share_training "$run" "$out/abs-$seed"
            weights=$(tuned_weights "$out/abs-$seed" "$out/tuning-$seed" "$prepared" 7 "$text/valid" --nbest 20 --documents 200 --device cpu)
            decoding=(--extractive-weights "$weights")
        else
            train_system "$run" "$arch" "$seed"
        fi
        case $arch in
            abs*) options=() decoding+=(--exact-length 7 --no-repeat-ngram-size 1 --recombine 5 --unkpen 1000000) ;;
            # The last checkpoint is used, because the checkpoint with the best likelihood may predate the coverage loss.
            pg_coverage) options+=(--checkpoint "$run/checkpoints/checkpoint_last.pt") ;;
            # The model has learned to generate <unk> for words that cannot be copied, so <unk> must be allowed.
            feats_lvt2k_ptr) decoding=(--replace-unknown --allow-unk) ;;
            *) decoding=(--replace-unknown) ;;
        esac
        summarise_once "$run" "$run/summaries.txt" --prepared "$prepared" --beam 5 "${options[@]}" --cpu \
            ${decoding[@]+-- "${decoding[@]}"}
        summaries+=(--system "$arch-$seed=$run/summaries.txt")
    done
done
etads-analyse --source "$text/test.source" --reference "$text/test.target" --lead-words 8 "${summaries[@]}" \
    --json "$out/analysis.json"
difference_table "$systems" gru_seq2seq "$text"
