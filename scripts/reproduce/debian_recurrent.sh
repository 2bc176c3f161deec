#!/usr/bin/env bash
# The recurrent presets on the Debian sample corpus, small and with the same budget: ROUGE and source copy rate.
#
#   scripts/reproduce/debian_recurrent.sh [--out DIR] [--steps N] [--seeds "1 2"] [--archs "gru_seq2seq words_lvt2k"]
#
#   --out DIR    default: runs/debian_recurrent in the repository
#   --text DIR   what etads-debian made (default: the sample corpus)
#   --size N     known words (default: 8000; of less text than the sample corpus, fewer)
#   --steps N    training steps of each model (default: 1500, 5 to 10 minutes on 2 cores)
#   --seeds LIST, --archs LIST   default: "1", and all eight
#
# Deviations from the papers: another corpus, width 128 and word vectors of 100, 8,000 known words in one dictionary, Adam
# with rate 1e-3, dropout 0.2, a fixed number of steps, no word vectors to begin with, TF and IDF as the only factors, at
# least 3 words, and unknown words replaced by the most attended ones (pg_coverage never writes one). It says
# whether the mechanisms train and roughly what they do, not what they reach on Gigaword.
# Can be interrupted and started again. Prints Markdown tables; "copied" is the source copy rate.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

out=$ROOT/runs/debian_recurrent steps=1500 seeds="1" size=8000
systems="gru_seq2seq words_lvt2k words_lvt5k words_lvt2k_hieratt feats_lvt2k feats_lvt2k_ptr words_lvt2k_temp_att pg_coverage"
read_comparison --archs "$@"
supervise etads-prepare "$text" "$out/prepared" --tokens word --size "$size" --source-sentence-marks --factors tf idf

summaries=()
for seed in $seeds; do
    for arch in $systems; do
        run=$out/$arch-$seed options=() decoding=(-- --replace-unknown)
        case $arch in
            feats*) options=(--source-factors tf:10,idf:10) ;;
            # the last checkpoint: the best by likelihood may be from before the coverage loss
            pg_coverage) decoding=(--checkpoint "$run/checkpoints/checkpoint_last.pt") ;;
        esac
        # trained to write <unk> for words that are not candidates, so <unk> must be allowed
        [ "$arch" != feats_lvt2k_ptr ] || decoding+=(--allow-unk)
        train_small_recurrent "$steps" "$run" "$out/prepared" "$arch" --seed "$seed" ${options[@]+"${options[@]}"}
        summarise_once "$run" "$run/summaries.txt" --prepared "$out/prepared" --min-len 3 --max-len 30 --cpu \
            ${decoding[@]+"${decoding[@]}"}
        summaries+=(--system "$arch-$seed=$run/summaries.txt")
    done
done
etads-analyse --source "$text/test.source" --reference "$text/test.target" "${summaries[@]}" \
    --json "$out/analysis.json"
