#!/usr/bin/env bash
# Entail-s2s (Li, Zhu, Zhang and Zong, COLING 2018) on Gigaword: summarisation with entailment recognition, then rewards for
# entailment.
#
#   scripts/prepare_gigaword.sh --data DIR --out data/gigaword -- --separate-dictionaries --source-size 119505 --target-size 68885
#   scripts/prepare_duc.sh --data DIR --like data/gigaword/prepared --out data/duc2004
#   etads-nli train nli/model --train nli/snli_1.0_train.jsonl nli/multinli_1.0_train.jsonl --valid nli/snli_1.0_dev.jsonl --hide-digits
#   scripts/reproduce/entail_gigaword.sh --data data/gigaword --nli nli --entail-model nli/model [--duc data/duc2004] [options] [-- options of fairseq-train]
#
#   --data DIR       output folder of scripts/prepare_gigaword.sh
#   --duc DIR        output folder of scripts/prepare_duc.sh; if it is not given, only Gigaword is scored
#   --nli DIR        folder containing pairs for entailment recognition: snli_1.0_train.jsonl, multinli_1.0_train.jsonl
#   --entail-model DIR   model folder written by etads-nli train on such pairs, for the reward (the paper's model uses
#                    GloVe vectors: --vectors). The defaults of --nli and --entail-model are synthetic pairs that
#                    etads-nli generates from the titles, and a model trained on these pairs, both in OUT/nli; the
#                    scores then belong to another system ("synthetic NLI")
#   --out DIR        output folder (default: runs/entail_gigaword in the repository)
#   --rows LIST      rows of the table below to run (default: both)
#   --seeds LIST     random seeds for training (default: "1")
#   --cpu            do not use a GPU
#   --every N:M      alternate N updates of summarisation with M updates of entailment recognition (default: 100:10)
#
#   ROW      trained by                                                        published R-1 / R-2 / R-L; DUC-2004
#   mtl      summarisation and entailment recognition with one encoder         (in no table available to us)
#   entail   then reward-augmented likelihood with entailment as the reward    35.33 / 17.27 / 33.19; 29.33 / 10.24 / 25.24
#
# As in the paper and its code, the model has a bidirectional LSTM and a decoder of width 512, word vectors of width
# 300, a selective gate and dropout of 0.5, and its initial weights are uniform in [-0.1, 0.1]. Training uses batches of
# 64, Adam with a learning rate of 5e-4, gradients clipped to a norm of 5, and the sum of the losses of a summary's
# words. The model is validated every 2,000 updates by ROUGE-2, and training stops after 30 validations without an
# improvement. Rewards use 5 samples at a temperature of 0.85. Decoding uses a beam of 10 and at most 20 words, without
# length normalisation.
#
# Deviations: as in the code, the learning rate is halved after 12 validations without a better ROUGE-2, but training
# does not return to the best model with a new optimiser. The end of an epoch counts as one more validation. ROUGE-2 is
# computed on the first 200 validation pairs. Articles are truncated to 100 words and titles to 30. The published code
# has no gate. The pairs of --nli are tokenised like the corpus, with # for each digit; synthetic pairs, which consist
# of the corpus's words, are split at spaces.
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json
# and duc.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="mtl entail"
data="" duc="" nli="" entail_model="" out=$ROOT/runs/entail_gigaword rows=$all seeds="1" every=100:10
read_options "--data --duc --nli --entail-model --out --rows --seeds --cpu --every --" "$@"
[ -z "$nli" ] || [ -d "$nli" ] || die "--nli $nli: no such folder"
[ -z "$entail_model" ] || [ -f "$entail_model/config.json" ] ||
    die "--entail-model $entail_model: no entailment model in it; etads-nli train makes one"
begin_gigaword "$all" 119505 68885

# train_on_gigaword RUN SEED [options of fairseq-train]
train_on_gigaword() {
    local run=$1 seed=$2
    shift 2
    train_once "$run" "$data/prepared" --arch entail_s2s --batch-size 64 --required-batch-size-multiple 1 --sentence-avg \
        --truncate-source 100 --truncate-target 30 --optimizer adam --lr 5e-4 --clip-norm 5 --lr-scheduler reduce_lr_on_validation \
        --lr-shrink 0.5 --lr-patience 11 --max-epoch 100 --validate-interval-updates 2000 --patience 30 --eval-rouge \
        --best-checkpoint-metric rouge2 --maximize-best-checkpoint-metric --seed "$seed" "$@" \
        "${device[@]}" "${more[@]}"
}

mkdir -p "$out"
[ -n "$nli" ] && [ -n "$entail_model" ] || train_nli "$data/text" "$out/nli" --words spaces
words=(--auxiliary-words ptb --auxiliary-hide-digits)
[ -n "$nli" ] || words=(--auxiliary-words spaces)
nli=${nli:-$out/nli/pairs} entail_model=${entail_model:-$out/nli/model}
decoding=(--beam 10 --max-len 20 "${device[@]}" -- --unnormalized)
for seed in $seeds; do
    train_on_gigaword "$out/mtl-$seed" "$seed" --auxiliary-task entailment --auxiliary-data "$nli" --auxiliary-every "$every" \
        "${words[@]}"
    for row in $rows; do
        run=$out/$row-$seed
        if [ "$row" = entail ]; then
            train_on_gigaword "$run" "$seed" --finetune-from-model "$out/mtl-$seed/checkpoints/checkpoint_best.pt" \
                --criterion summarization_raml --raml-reward entail --raml-entailment-model "$entail_model" \
                --raml-temperature 0.85 --raml-samples 5
        fi
        summarise_and_score "$run" "$data" "${decoding[@]}"
        if [ -n "$duc" ]; then
            summarise_and_score_duc "$run" "$duc" "${decoding[@]}"
        fi
    done
done
score_table "$out" "$rows" "$seeds"
[ -z "$duc" ] || score_table "$out" "$rows" "$seeds" duc.json recall
