#!/usr/bin/env bash
# ConvS2S on CNN/Daily Mail, plain and with control words (Fan, Grangier, Auli 2017, "Controllable Abstractive Summarization").

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce convs2s_cnndm --out "$ROOT/runs/convs2s_cnndm" "$@"
