#!/usr/bin/env bash
# Prepare, train, summarise and score with fairseq's own commands, for those who come from fairseq. The tutorial
# (docs/tutorial.md) compares the result with that of etads-train.
#
#   scripts/fairseq.sh TEXT OUT [options of fairseq-train]
#
#   TEXT   folder containing {train,valid,test}.{source,target}, one document or summary per line (etads-corpus makes it)
#   OUT    output folder for prepared/, checkpoints/ and summaries.txt
#
# Later options override earlier ones, for example: scripts/fairseq.sh TEXT OUT --arch pg_coverage --max-update 2000

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1-} in "" | -h | --help) usage ;; esac
[ $# -ge 2 ] || die "OUT is missing; see --help"
text=$1 out=$2
shift 2
use_environment
plugin=(--user-dir fairseq_etads --task summarization)

# etads-prepare tokenises, and runs fairseq-preprocess with a dictionary that also contains all words that the model does
# not know, because a pointer copies them. fairseq-preprocess alone would replace them with <unk>.
supervise etads-prepare "$text" "$out/prepared" --tokens word --size 1000

# A small model: two layers of width 128. fairseq-train continues from checkpoint_last.pt after an interruption.
supervise fairseq-train "$out/prepared/bin" "${plugin[@]}" --arch etads --pointer soft --criterion summarization_nll \
    --truncate-source 100 --truncate-target 30 --no-encoder-learned-pos --no-decoder-learned-pos \
    --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 \
    --decoder-layers 2 --decoder-attention-heads 4 --dropout 0.25 --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.998)' --lr 3e-3 --lr-scheduler inverse_sqrt --warmup-updates 200 --clip-norm 2 \
    --max-tokens 4000 --max-update 800 --no-epoch-checkpoints --save-dir "$out/checkpoints" "$@"

# The search options of ETADS: a length penalty and a coverage penalty (Wu et al. 2016).
supervise fairseq-generate "$out/prepared/bin" "${plugin[@]}" --path "$out/checkpoints/checkpoint_best.pt" \
    --tokenizer etads --beam 5 --min-len 4 --max-len-b 30 --no-repeat-ngram-size 2 \
    --length-penalty-type wu --lenpen 0.9 --coverage-penalty 1 > "$out/generated.txt"

# fairseq-generate prints summaries by length, with the numbers of the documents: D-17 <tab> score <tab> summary
grep '^D-' "$out/generated.txt" | sed 's/^D-//' | LC_ALL=C sort -n | cut -f3- > "$out/summaries.txt"

if command -v files2rouge > /dev/null; then
    files2rouge "$out/summaries.txt" "$text/test.target"
else
    etads-rouge "$out/summaries.txt" "$text/test.target"
fi
