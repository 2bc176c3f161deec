#!/usr/bin/env bash
# ConvS2S on CNN/Daily Mail, plain and with control words (Fan, Grangier, Auli 2017, "Controllable Abstractive Summarization").
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" convs2s_cnndm "$@"
