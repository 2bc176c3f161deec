#!/usr/bin/env bash
# ETADS's Tables 2 (systems), 4 (depths), 5 and 6 (which layers have a mechanism) on CNN/Daily Mail.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm
#   scripts/reproduce/etads_cnndm.sh --data data/cnndm [--rows "basic etads"] [options] [-- options of fairseq-train]
#
#   --data DIR      output folder of scripts/prepare_cnndm.sh
#   --out DIR       output folder (default: runs/etads_cnndm in the repository)
#   --rows LIST     rows of the table below to run (default: all but long)
#   --seeds LIST    random seeds for training (default: "1")
#   --steps N       number of training steps (default: 200000, as in the paper; long: chosen by the recipe of etads-train)
#   --cpu           do not use a GPU
#
#   ROW                     mechanisms, layers                      in the paper's tables          published R-1 / R-2 / R-L
#   basic                   none, 4+4 layers                        2: Basic model, 4: 4 layers    F1 39.45 / 17.20 / 36.49
#                                                                   5: -                           P  40.87 / 17.78 / 37.73
#                                                                   6: -                           R  41.10 / 17.82 / 37.91
#   focus                   focus-attention in all layers           2: +Focus-Attention            F1 40.29 / 18.63 / 38.11
#                                                                   6: [1-4]                       R  41.31 / 18.72 / 38.93
#   saliency                saliency-selection in all layers        2: +Saliency-Selection         F1 40.76 / 18.40 / 37.67
#                                                                   5: [1-4]                       P  43.06 / 20.85 / 40.12
#   etads                   both in all layers                      2: ETADS                       F1 41.75 / 19.01 / 38.89
#   encoder-2               none, 2+4 layers                        4: Encoder, 2 layers           F1 35.12 / 14.05 / 32.41
#   encoder-6               none, 6+4 layers                        4: Encoder, 6 layers           F1 39.67 / 17.47 / 35.71
#   decoder-2               none, 4+2 layers                        4: Decoder, 2 layers           F1 31.10 / 12.93 / 27.04
#   decoder-6               none, 4+6 layers                        4: Decoder, 6 layers           F1 39.35 / 18.01 / 36.21
#   saliency-1-2            saliency-selection in layers 1 and 2    5: [1-2]                       P  42.81 / 20.12 / 39.68
#   saliency-3-4            saliency-selection in layers 3 and 4    5: [3-4]                       P  41.91 / 19.65 / 39.32
#   focus-1-2               focus-attention in layers 1 and 2       6: [1-2]                       R  40.92 / 18.61 / 38.22
#   focus-3-4               focus-attention in layers 3 and 4       6: [3-4]                       R  40.57 / 18.20 / 38.19
#   long                    both, with the settings below           not in the paper
#
# The row long uses the best known settings instead of the paper's: "etads-train --long --words 400" trains an extractor, which
# picks sentences from the whole document, and ETADS with a soft pointer, and a content model chooses the sentences of
# the summaries (docs/long.md).
#
# docs/systems.md lists the rows of Table 2 that the paper takes from other papers (nallapati_cnndm.sh has
# words_lvt2k_temp_att and pg_coverage). Two of these rows do not report the systems that they name.
# "words-1vt2k-temp-att 36.64 / 15.66 / 33.42" does not match Nallapati et al. (35.46 / 13.30 / 32.65) but, except for
# one digit, See et al.'s pointer-generator without coverage (36.44 / 15.66 / 33.42). "ConvS2S 39.75 / 17.29 / 36.54" is
# the controlled model of Fan et al. 2017, not Gehring et al.'s. The numbers of parameters in Table 4 are in units of
# 10,000 and not of 1,000 (docs/etads.md).
#
# As in the paper, documents have 400 words and summaries 100, one dictionary contains 50,000 words, and the output
# layer has a bias (equation 4). Training uses Adam (0.9, 0.998) with 8,000 warm-up steps to the peak of Noam's
# schedule, gradients clipped to a norm of 2, batches of 4,096 words and 200,000 steps. Decoding uses a beam of 10 and
# 35 to 100 words, with a coverage penalty of 1 and Wu's length penalty of 0.9.
#
# Deviations: position embeddings are initialised at random, not with sinusoids. "dropout 0.8" is taken to be the
# probability of keeping a unit. The 50,000 words are the most frequent words of documents and summaries, not of
# documents alone. One processor processes 4,096 words per step; the paper uses four processors and does not say whether
# each processes 4,096 words. To imitate this on one processor, give -- --update-freq 4. ROUGE is computed by
# etads-rouge, not by pyrouge. The paper specifies neither the form of its coverage penalty (here: "summary", which
# penalises attending to the same words again) nor the treatment of unknown words (here, they stay <unk>).
#
# The recipe can be interrupted and started again. It prints Markdown tables; the scores are in DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="basic focus saliency etads encoder-2 encoder-6 decoder-2 decoder-6 saliency-1-2 saliency-3-4 focus-1-2 focus-3-4"
data="" out=$ROOT/runs/etads_cnndm rows=$all seeds="1" steps=""
read_options "--data --out --rows --seeds --steps --cpu --" "$@"
steps_of_long=(${steps:+--max-update "$steps"}) steps=${steps:-200000}
begin_recipe scripts/prepare_cnndm.sh "$all long" steps

# options_of ROW: print the options of fairseq-train for a row, one word per line.
options_of() {
    local focus=none saliency=none encoder=4 decoder=4
    case $1 in
        focus) focus=all ;;
        saliency) saliency=all ;;
        etads) focus=all saliency=all ;;
        focus-?-?) focus=${1#focus-} ;;
        saliency-?-?) saliency=${1#saliency-} ;;
        encoder-?) encoder=${1#encoder-} ;;
        decoder-?) decoder=${1#decoder-} ;;
    esac
    printf '%s\n' --focus-layers "$focus" --saliency-layers "$saliency" --encoder-layers "$encoder" --decoder-layers "$decoder"
}

GENERATE=(--beam 10 --min-len 35 --max-len 100 --length-penalty-type wu --lenpen 0.9 --coverage-penalty 1
    "${device[@]}")
for seed in $seeds; do
    for row in $rows; do
        if [ "$row" = long ]; then
            run_long "$out/long-$seed" "$data/text" --words 400 "${steps_of_long[@]}" -- --seed "$seed" "${more[@]}"
            continue
        fi
        mapfile -t options < <(options_of "$row")
        run_system "$out/$row-$seed" "$data/text" "$data/prepared" train_prepared --arch etads --truncate-source 400 \
            --truncate-target 100 --max-tokens 4096 --max-update "$steps" "${device[@]}" \
            -- --seed "$seed" --output-bias "${options[@]}" "${more[@]}"
    done
done

# print_table TITLE MEASURE ROW ...: print the scores of the requested rows.
print_table() {
    local title=$1 measure=$2 found="" row
    shift 2
    for row in "$@"; do case " $rows " in *" $row "*) found+="$row " ;; esac; done
    [ -n "$found" ] || return 0
    printf '\n%s\n\n' "$title"
    score_table "$out" "$found" "$seeds" rouge.json "$measure"
}
print_table "Table 2, F1" f1 basic focus saliency etads
print_table "Table 4, F1" f1 encoder-2 basic encoder-6 decoder-2 decoder-6
print_table "Table 5, precision" precision basic saliency-1-2 saliency-3-4 saliency
print_table "Table 6, recall" recall basic focus-1-2 focus-3-4 focus
print_table "Best known settings, F1" f1 long
