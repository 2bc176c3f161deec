#!/usr/bin/env bash
# Compare temporal attention with the plain model on long documents: how often summaries of SumPubMed repeat a bigram.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed
#   scripts/reproduce/sumpubmed_temporal.sh --data data/sumpubmed [options] [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_sumpubmed.sh
#   --out DIR       output folder (default: runs/sumpubmed_temporal in the repository)
#   --steps N       number of training steps of each model (default: 20000)
#   --subset NAME   split to summarise: test (default) or valid
#   --seeds LIST    random seeds for training (default: "1")
#   --systems LIST  systems to train (default: "plain temporal"); several calls with the same --out can each train one
#                   system at the same time
#   --cpu           do not use a GPU
#
# As in the paper's CNN/Daily Mail models, the models have width 200, word vectors of width 100 and the large-vocabulary
# trick with 2,000 words; decoding uses a beam of 5 and at most 100 words. Deviations: another corpus, documents of 400
# words, Adam with a learning rate of 1e-3 and a fixed number of steps, no pretrained word vectors, and unknown words
# replaced with the most attended source words. Both models are words_lvt2k_temp_att, one of them with
# --no-temporal-attention; they do not differ otherwise.
#
# The recipe can be interrupted and started again. It prints Markdown tables; "rep. 2" is the share of repeated bigrams,
# and the last lines test the difference.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

data="" out=$ROOT/runs/sumpubmed_temporal steps=20000 subset=test seeds="1" names="plain temporal"
read_options "--data --out --steps --subset --seeds --systems=names --cpu --" "$@"
need_prepared --data "$data" scripts/prepare_sumpubmed.sh
need_integer --steps "$steps"
need_choice --subset "$subset" test valid
need_choices --systems "$names" "plain temporal"
use_environment

systems=()
for seed in $seeds; do
    for name in $names; do
        run=$out/$name-$seed switch=--temporal-attention
        [ "$name" = temporal ] || switch=--no-temporal-attention
        train_recurrent "$run" "$data/prepared" --arch words_lvt2k_temp_att "$switch" --truncate-source 400 \
            --truncate-target 100 --optimizer lazy_adam --lr 1e-3 --clip-norm 2 --max-update "$steps" --seed "$seed" \
            "${device[@]}" "${more[@]}"
        summarise_once "$run" "$run/$subset.txt" --prepared "$data/prepared" --subset "$subset" --max-len 100 \
            "${device[@]}" -- --replace-unknown
        systems+=(--system "$name-$seed=$run/$subset.txt")
    done
done
etads-analyse --source "$data/text/$subset.source" --reference "$data/text/$subset.target" "${systems[@]}" \
    --json "$out/$subset.json"
both_chosen "$names" temporal plain || exit 0
python - "$out" "$subset" $seeds <<'PYTHON'
import pathlib, sys
import numpy as np
from fairseq_etads.evaluation.analysis import WORD_SPLITTERS, compute_repeated_ngram_share
from fairseq_etads.evaluation.resampling import compare_pairs
from fairseq_etads.evaluation.summaries import read_lines
from fairseq_etads.text.words import SENTENCE_MARK

def rates(system):
    """Per cent of each summary's bigrams that occurred before in it."""
    texts = read_lines(str(pathlib.Path(sys.argv[1]) / system / f"{sys.argv[2]}.txt"))
    words = (WORD_SPLITTERS["words"](text.replace(SENTENCE_MARK, " ")) for text in texts)
    return 100 * np.array([compute_repeated_ngram_share(summary, 2) or 0.0 for summary in words])

for seed in sys.argv[3:]:
    test = compare_pairs(rates(f"temporal-{seed}"), rates(f"plain-{seed}"), 1000, 12345)
    low, high = (np.nan, np.nan) if test["interval"] is None else test["interval"]  # None for a single document
    print(f"repeated bigrams, seed {seed}: temporal - plain {test['difference']:.2f} points [{low:.2f}, {high:.2f}], "
          f"paired randomisation p = {test['p_randomisation']:.3f}")
PYTHON
