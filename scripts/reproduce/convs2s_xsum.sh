#!/usr/bin/env bash
# ConvS2S (Gehring et al. 2017) on XSum, as Narayan, Cohen, Lapata 2018 trained it; and the same model with a pointer.

source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
use_environment
exec etads-reproduce convs2s_xsum --out "$ROOT/runs/convs2s_xsum" "$@"
