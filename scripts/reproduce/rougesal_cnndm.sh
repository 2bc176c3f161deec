#!/usr/bin/env bash
# Pasunuru and Bansal 2018 on CNN/Daily Mail: See et al.'s model, then alternating rewards for saliency and entailment.
#
#   scripts/prepare_cnndm.sh --stories cnn/stories dailymail/stories --urls url_lists --out data/cnndm50k -- --size 49996
#   scripts/reproduce/rougesal_cnndm.sh --data data/cnndm50k [options] [-- options of fairseq-train]
#
#   --data DIR            output folder of the first command; 50,000 words, including the four special symbols
#   --out DIR             output folder (default: runs/rougesal_cnndm in the repository)
#   --rows LIST           rows of the table below to run (default: all)
#   --seeds LIST          random seeds for training (default: "1")
#   --cpu                 do not use a GPU
#   --rewards LIST        rewards to alternate between (default: rougesal,entail); the paper's other rows are rougeL,
#                         entail, rougesal and rougeL,entail; use a separate --out for each row
#   --entail-model DIR    model folder written by etads-nli train on SNLI and MultiNLI (default: a substitute in
#                         OUT/nli, trained on pairs that etads-nli synthesise generates from the reference summaries)
#   --saliency SALIENCY   source of saliency: idf (default), or a checkpoint of --arch word_tagger
#   --before DIR          output folder of see2017_cnndm.sh that contains pointer_generator_coverage-SEED (default:
#                         OUT/plain, trained if necessary)
#   --rl-steps N          number of training steps with rewards (default: 20000)
#   --stages LIST, --stage-steps N, --steps N, --coverage-steps N   as for see2017_cnndm.sh, which trains the
#                         preceding stages
#
#   ROW               trained by                                                  published F1, R-1 / R-2 / R-L
#   rougesal-entail   likelihood, coverage, then ROUGESal and entailment          40.43 / 18.00 / 37.10
#
# As in the paper, the model is first trained by likelihood until training ends. Then, rewards alternate between
# mini-batches, are compared with the reward of the greedy summary, and are mixed with the likelihood. All parts of the
# model are trained with rewards; only the models that compute rewards are frozen. The following settings are from
# memory or our choice: the weight of 0.998; Adam with a learning rate of 1e-4, gradients clipped to a norm of 2 and
# batches of 16; the selection of the checkpoint by validation ROUGE-L; and the cap of 1 on the length ratio in the
# entailment reward.
#
# Deviations: in the paper, saliency is learned from the answers in SQuAD, and entailment from SNLI and MultiNLI. With
# idf and synthetic pairs, which are the defaults, the row is a different system: "idf saliency, synthetic NLI". The
# likelihood stages, decoding and deviations are otherwise as in see2017_cnndm.sh.
#
# The recipe can be interrupted and started again. It prints a Markdown table; the scores are in
# DIR/ROW-SEED/rouge.json.

source "$(dirname "${BASH_SOURCE[0]}")/../recipes.sh"

all="rougesal-entail"
data="" out=$ROOT/runs/rougesal_cnndm rows=$all seeds="1" rl_steps=20000
rewards=rougesal,entail entail_model="" saliency=idf before=""
stages="" stage_steps="" steps="" coverage_steps=""
read_options "--data --out --rows --seeds --cpu --rewards --entail-model --saliency --before --rl-steps --stages --stage-steps --steps \
--coverage-steps --" "$@"
begin_recipe scripts/prepare_cnndm.sh "$all" rl_steps
[ -z "$entail_model" ] || [ -f "$entail_model/config.json" ] ||
    die "--entail-model $entail_model: no entailment model in it; etads-nli train makes one"
before=${before:-$out/plain}

options=()
case ,$rewards, in
    *,entail,*)
        [ -n "$entail_model" ] || { train_nli "$data/text" "$out/nli"; entail_model=$out/nli/model; }
        options+=(--entail-model "$entail_model") ;;
esac
case ,$rewards, in *,rougesal,*) options+=(--rougesal-saliency "$saliency") ;; esac

for seed in $seeds; do
    train_see2017 "$before" pointer_generator_coverage "$seed"
    for row in $rows; do
        train_with_rewards "$out/$row-$seed" "$before/pointer_generator_coverage-$seed" "$seed" "$rewards" \
            "${options[@]}"
    done
done
score_table "$out" "$rows" "$seeds"
