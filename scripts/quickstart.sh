#!/usr/bin/env bash
# Install the project, train a small ETADS with a pointer on a real corpus, summarise and score: 7 minutes on 2 cores.
#
#   scripts/quickstart.sh [options]
#
#   --out DIR        output folder (default: runs/quickstart in the repository)
#   --steps N        number of training steps (default: 900, 5 minutes on 2 cores)
#   --minutes N      duration of training, instead of --steps
#   --arch NAME, --pointer KIND, --tokens KIND   as for etads-train (default: etads, soft, word)
#   --size N         vocabulary size in words, BPE merges or SentencePiece pieces (default: 1000 words, 5000 otherwise)
#   --venv DIR, --python PYTHON   as for scripts/install.sh
#   --no-install     use the active environment instead of installing the project
#   --gpu            use a GPU (default: the CPU; a GPU hardly speeds up such a small model)
#
# The corpus is the sample included in the project: 13,000 Debian package descriptions and their synopses. You can
# interrupt the script with Ctrl-C; when it is run again, it skips finished steps and continues.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/runs/quickstart arch=etads pointer=soft tokens=word size="" steps=900 minutes="" venv="" python="" no_install="" gpu=""
parse_options "--out --arch --pointer --tokens --size --steps --minutes --venv --python --no-install! --gpu!" "$@"
[ -n "$gpu" ] || export CUDA_VISIBLE_DEVICES=""
# With 12,000 pairs, a model learns only a few words well, so copying the other words helps.
[ -n "$size" ] || { [ "$tokens" = word ] && size=1000 || size=5000; }
[ -z "$minutes" ] && length=(--max-update "$steps") || length=(--minutes "$minutes")
VENV=${venv:-$VENV}
if [ -z "$no_install" ]; then
    supervise "$ROOT/scripts/install.sh" --venv "$VENV" ${python:+--python "$python"} ${gpu:+--gpu}
    export PATH="$VENV/bin:$PATH"
fi
use_environment

say "a summary by the bundled model (etads-summarize debian)"
etads-summarize debian --quiet <<< "fairseq-etads is a plugin for fairseq which trains neural models that write abstractive \
summaries of documents. It contains the ETADS Transformer with focus-attention, pointers that copy words of the document, \
and tools for data preparation and ROUGE."

supervise etads-debian --sample --out "$out/text"
supervise etads-train --text "$out/text" --out "$out" --recipe small --arch "$arch" --pointer "$pointer" --tokens "$tokens" \
    --size "$size" "${length[@]}" $([ -n "$gpu" ] || echo --cpu)
supervise python -m fairseq_etads.pipeline.steps --makes "$out/summaries.txt" \
    --reads "$out"/{checkpoints/checkpoint_best.pt,content.npz,recipe.json} -- \
    etads-summarize "$out" --split test --output "$out/summaries.txt" --restart
etads-rouge "$out/summaries.txt" "$out/text/test.target" --documents "$out/text/test.source" --lead-words 8 --show 3 \
    > "$out/scores.txt"
cat "$out/scores.txt"
say "all results are in $out; next, export a model folder, and summarise with it:"
say "$(dirname "$(command -v etads)")/etads export $out model && etads summarize model article.txt"
