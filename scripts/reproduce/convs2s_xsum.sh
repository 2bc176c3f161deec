#!/usr/bin/env bash
# ConvS2S (Gehring et al. 2017) on XSum, as Narayan, Cohen, Lapata 2018 trained it; and the same model with a pointer.
exec "$(dirname "${BASH_SOURCE[0]}")/../reproduce.sh" convs2s_xsum "$@"
