#!/usr/bin/env bash
# ETADS on SciTLDR (Cachola et al. 2020): scientific papers, each summarised in a sentence.
#
#   etads-corpus scitldr --data SciTLDR-AIC --out data/scitldr
#   scripts/reproduce/scitldr.sh --text data/scitldr [--rows "etads long"] [options] [-- options of fairseq-train]
#
#   --text DIR      output folder of etads-corpus scitldr, with the splits train, valid and test
#   --out DIR       output folder (default: runs/scitldr in the repository)
#   --rows LIST     rows of the table below to run (default: all)
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps (default: chosen by the recipe of etads-train)
#   --words N       maximum number of words that the extractor of the row long picks (default: 200)
#   --cpu           do not use a GPU
#
#   ROW     what the model reads
#   etads   the beginning of the document
#   long    the sentences that an extractor picks from the whole document; a content model chooses the sentences of the
#           summary (docs/long.md)
#
# Both rows are trained by etads-train with the recipe that it chooses for the data and the machine. SciTLDR-A
# contains abstracts, which are so short that the extractor picks nearly all of their sentences. SciTLDR-AIC contains
# longer documents: the abstract, the introduction and the conclusion. A summary is scored against the most similar of
# its references.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="etads long"
text="" out=$ROOT/runs/scitldr rows=$all seeds="1" steps="" words=200
read_options "--text --out --rows --seeds --steps --words --cpu --" "$@"
[ -n "$text" ] || die "--text is missing; see --help"
[ -f "$text/test.source" ] || die "--text $text: no test.source in it; etads-corpus scitldr makes it"
[ -z "$steps" ] || need_integer --steps "$steps"
need_integer --words "$words"
need_choices --rows "$rows" "$all"
use_environment

train_with_recipe() {
    supervise etads-train "$@"
}
GENERATE=("${device[@]}")
for seed in $seeds; do
    for row in $rows; do
        run=$out/$row-$seed settings=(${steps:+--max-update "$steps"})
        case $row in
            etads)
                run_system "$run" "$text" "$out/prepared" train_with_recipe --text "$text" "${device[@]}" "${settings[@]}" \
                    -- --seed "$seed" "${more[@]}" ;;
            long) run_long "$run" "$text" --words "$words" "${settings[@]}" -- --seed "$seed" "${more[@]}" ;;
        esac
    done
done
score_table "$out" "$rows" "$seeds"
