#!/usr/bin/env bash
# Install fairseq-etads and its dependencies, in tested versions, into a virtual environment.
#
#   scripts/install.sh [--venv DIR] [--python PYTHON] [--cpu | --gpu] [--dev] [--wheel FILE]
#
#   --venv DIR       folder of the virtual environment, which is created if necessary (default: $ETADS_VENV, or .venv in
#                    the repository)
#   --python PYTHON  Python interpreter for the new environment, version 3.9 or newer (default: python3)
#   --cpu, --gpu     install torch for CPUs only, or with CUDA (default: with CUDA if there is an NVIDIA GPU)
#   --dev            for contributors: also install the requirements of the tests, and install the package in editable
#                    mode
#   --wheel FILE     install this wheel of fairseq-etads (default: a wheel built from the sources in this repository)
#
# On Linux, PyPI's torch includes CUDA, which is a download of several gigabytes and takes about 5 GB of disk space. The
# CPU version of torch is downloaded from https://download.pytorch.org/whl/cpu. If pip is configured with your own
# package index (PIP_INDEX_URL, pip.conf), torch is installed from that index. A version of torch that is already
# installed is kept; to change it, delete the environment.
#
# The script can be run again; it installs only what is missing or has changed. fairseq is compiled (2 minutes on 2
# cores), which requires a C++ compiler and the Python headers.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

python=python3 venv="" cpu="" gpu="" dev="" wheel=""
parse_options "--venv --python --cpu! --gpu! --dev! --wheel" "$@"
[ -z "$cpu" ] || [ -z "$gpu" ] || die "--cpu and --gpu exclude one another"
device=${cpu:+--cpu}${gpu:+--gpu} extras=${dev:+[dev]} VENV=${venv:-$VENV}

[ -z "$wheel" ] || [ -f "$wheel" ] || die "--wheel $wheel: no such file"
command -v "$python" >/dev/null || die "--python $python: no such command"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "--python $python: Python 3.9 or newer is needed"
command -v c++ >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler: fairseq is compiled when it is installed (Debian, Ubuntu: apt-get install g++ python3-dev)"

[ -x "$VENV/bin/python" ] || { say "making $VENV"; "$python" -m venv "$VENV"; }
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet)

editable=""  # an editable installation must be repeated only if the metadata change: commands, requirements or version
[ -z "$extras" ] || [ -n "$wheel" ] || editable=$ROOT
sources=(setup.py pyproject.toml MANIFEST.in README.md LICENSE)
if [ -n "$editable" ]; then sources+=(fairseq_etads/version.py); else sources+=(fairseq_etads preprocess docs); fi

# The build runs in a copy, because a build leaves folders behind and would use the folders of an earlier build.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$ROOT/constraints.txt" ${wheel:+"$wheel"} "$copy"
[ -n "$wheel" ] || tar -C "$ROOT" --exclude=__pycache__ -cf - "${sources[@]}" | tar -C "$copy" -xf -
# The copy does not contain .git, so the version cannot be determined from it.
[ -n "$wheel" ] || printf 'Version: %s\n' "$("$VENV/bin/python" "$ROOT/fairseq_etads/version.py")" > "$copy/PKG-INFO"
commands=$(cd "$ROOT" && grep -l '^"""The command ``etads' fairseq_etads/commands/*.py preprocess/*.py)
wanted=$(cd "$copy" && { find . -type f -exec cksum {} + | LC_ALL=C sort; echo "$extras$editable$commands"; } | cksum)
stamp=$VENV/.fairseq-etads
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || { say "up to date: $VENV"; exit; }

CPU_INDEX=https://download.pytorch.org/whl/cpu
# install_torch_for_cpu: install torch from PyTorch's index if there is a choice and no GPU. Later commands keep this
# version of torch.
install_torch_for_cpu() {
    local index kind why=""
    # Without an index, pip succeeds only if the installed torch is one that constraints.txt allows.
    if PIP_CONFIG_FILE=/dev/null "${pip[@]}" --isolated install --no-index --no-deps -c "$ROOT/constraints.txt" torch 2>/dev/null; then
        say "torch is installed already and stays${device:+ ($device chooses for a new environment only)}"
        return
    fi
    index=$("$VENV/bin/python" -m pip --disable-pip-version-check config list |
        grep -E '(^|[.])(index-url|extra-index-url|find-links|no-index)=' |
        grep -v "index-url='https://pypi.org/simple/*'" || true)
    if [ -n "$index" ]; then
        say "torch comes from where pip's settings say: $(tr '\n' ' ' <<< "$index")"
        return
    fi
    [ "$(uname -s)" = Linux ] || return 0  # PyPI's torch includes CUDA only on Linux
    kind=$device
    if [ -n "$kind" ]; then :
    elif nvidia-smi -L 2>/dev/null | grep -q GPU || [ -e /dev/nvidia0 ] || [ -e /proc/driver/nvidia/version ]; then kind=--gpu
    else kind=--cpu; fi
    if [ "$kind" = --gpu ]; then
        [ -n "$device" ] || why=": an NVIDIA GPU was found (--cpu does without)"
        say "torch with CUDA, about 5 GB on disk$why"
        return
    fi
    [ -n "$device" ] || why=": no NVIDIA GPU was found (--gpu takes CUDA nevertheless)"
    say "torch for processors, 200 MB to download$why"
    "${pip[@]}" install --no-deps --index-url "$CPU_INDEX" -c "$ROOT/constraints.txt" torch && return
    [ -z "$device" ] || die "--cpu: $CPU_INDEX cannot be reached, or has no such torch; without --cpu, torch comes from PyPI, with CUDA (5 GB)"
    say "WARNING: $CPU_INDEX cannot be reached, so torch comes from PyPI, with CUDA: about 5 GB on disk"
}

# torch is installed first, and fairseq is built against it. In an isolated build, pip would download a second torch.
say "installing torch and what fairseq is compiled with"
install_torch_for_cpu
"${pip[@]}" install -c "$ROOT/constraints.txt" torch numpy cython wheel setuptools
if ! "$VENV/bin/python" -c 'import fairseq' >/dev/null 2>&1; then
    say "compiling fairseq"
    "${pip[@]}" install -c "$ROOT/constraints.txt" --no-build-isolation fairseq-fixed
fi

say "installing fairseq-etads${editable:+: the sources in $ROOT}"
if [ -n "$editable" ]; then
    isolation=(--no-build-isolation)
    # The version of setuptools in Python 3.9 does not support this. In this case, pip downloads a newer version.
    "$VENV/bin/python" -c 'import setuptools, sys; sys.exit(int(setuptools.__version__.split(".")[0]) < 64)' || isolation=()
    "${pip[@]}" install -c "$ROOT/constraints.txt" "${isolation[@]}" -e "$ROOT$extras"
    # Links to the packages in site-packages let fairseq find --user-dir fairseq_etads from any folder. Pip removes the links
    # before it installs another version, because they are recorded.
    site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    for link in fairseq_etads:fairseq_etads etads_preprocess:preprocess; do
        rm -rf "$site/${link%:*}"  # an old link, or caches that another version has left behind
        ln -s "$ROOT/${link#*:}" "$site/${link%:*}"
        echo "${link%:*},," >> "$(echo "$site"/fairseq_etads-*.dist-info/RECORD)"
    done
else
    [ -n "$wheel" ] || "${pip[@]}" wheel --no-build-isolation --no-deps --wheel-dir "$copy" "$copy"
    wheel=$(echo "$copy"/*.whl)
    "${pip[@]}" install -c "$ROOT/constraints.txt" "$wheel$extras"
    # Without this option, changed sources would not be installed if the version is the same.
    "${pip[@]}" install --no-deps --force-reinstall "$wheel"
fi
echo "$wanted" > "$stamp"
