#!/usr/bin/env bash
# Measure the effect of the copy attention's continuation features (--pointer-continue) on long documents: etads on SumPubMed.
#
#   scripts/prepare_sumpubmed.sh --data DIR --out data/sumpubmed -- --size 8000
#   scripts/reproduce/sumpubmed_continue.sh --data data/sumpubmed [options] [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_sumpubmed.sh
#   --out DIR       output folder (default: runs/sumpubmed_continue in the repository)
#   --steps N       number of training steps of each model (default: 2600, two epochs)
#   --seeds LIST    random seeds for training (default: "1")
#   --systems LIST  systems to train (default: "without with")
#   --cpu           do not use a GPU
#
# Both systems are etads with a soft pointer, 2+2 layers of width 128 and the settings of scripts/quickstart.sh; one of
# them has --pointer-continue. Documents are truncated to 200 words and summaries to 100, and batches contain 4,000
# tokens. Decoding uses a beam of 5 and 35 to 100 words, and blocks repeated trigrams. No setting is chosen on the test
# pairs.
#
# The recipe can be interrupted and started again. It prints Markdown tables, and tests of the difference (with minus
# without) in ROUGE and in the likelihood of the references.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

data="" out=$ROOT/runs/sumpubmed_continue steps=2600 seeds="1" names="without with"
read_options "--data --out --steps --seeds --systems=names --cpu --" "$@"
need_prepared --data "$data" scripts/prepare_sumpubmed.sh
need_integer --steps "$steps"
need_choices --systems "$names" "without with"
use_environment

GENERATE=(--beam 5 --min-len 35 --max-len 100 "${device[@]}" -- --no-repeat-ngram-size 3)
for seed in $seeds; do
    for name in $names; do
        feature=()
        [ "$name" = without ] || feature=(--pointer-continue)
        run_system "$out/$name-$seed" "$data/text" "$data/prepared" train_small "$steps" --arch etads --pointer soft \
            --truncate-source 200 --truncate-target 100 "${device[@]}" -- --seed "$seed" "${SINUSOIDAL[@]}" \
            --focus-center relative --focus-initial-scope 2,2,2,half "${feature[@]}" "${more[@]}"
    done
done
systems=()
for seed in $seeds; do
    for name in $names; do systems+=(--system "$name-$seed=$out/$name-$seed/summaries.txt"); done
done
etads-analyse --source "$data/text/test.source" --reference "$data/text/test.target" --lead 3 "${systems[@]}" \
    --json "$out/analysis.json"
both_chosen "$names" with without || exit 0

with=() without=()
for seed in $seeds; do
    with+=("$out/with-$seed") without+=("$out/without-$seed")
done
compare_once "$out/compare" "$data/text/test.target" --a "${with[@]/%//summaries.txt}" --b "${without[@]/%//summaries.txt}"
compare_once "$out/likelihood" --likelihood --a "${with[@]}" --b "${without[@]}"
