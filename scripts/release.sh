#!/usr/bin/env bash
# Build the sdist and the wheel of the current commit, and test the wheel in a new environment outside the repository.
#
#   scripts/release.sh [--out DIR] [--venv DIR] [--python PYTHON] [--check | --unreleased]
#
#   --out DIR        output folder for the tested sdist and wheel (default: dist in the repository)
#   --venv DIR       environment in which to test the wheel; must not exist yet (default: a temporary environment)
#   --python PYTHON  Python interpreter for the new environment (default: python3)
#   --check          only check that version, changelog and tag agree
#   --unreleased     build and test without this check
#
# To release a version, set NEXT_VERSION in fairseq_etads/version.py, give this version and a date to the entries under
# "Unreleased" in CHANGELOG.md, commit, run this script, and tag the commit with the command that it prints. Once the
# tag exists, --check also checks the tag. Afterwards, set NEXT_VERSION to the next version: untagged commits have this
# version, followed by ".dev" and the commit. The test installs all packages in the new environment (fairseq is
# compiled), and runs scripts/quickstart.sh and scripts/fairseq.sh for a few training steps. It takes 5 minutes on 2
# cores.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/dist venv="" python=python3 check="" unreleased=""
parse_options "--out --venv --python --check! --unreleased!" "$@"
[ -z "$venv" ] || [ ! -e "$venv" ] || die "--venv $venv: exists already; the wheel is tested in a new environment"
git -C "$ROOT" rev-parse --verify --quiet HEAD >/dev/null || die "$ROOT is not a git repository with a commit"
[ -z "$(git -C "$ROOT" status --porcelain)" ] || die "uncommitted files would not be released; commit or ignore them"
version=$(sed -n 's/^NEXT_VERSION = "\(.*\)"$/\1/p' "$ROOT/fairseq_etads/version.py")
[ -n "$version" ] || die "fairseq_etads/version.py has no line NEXT_VERSION = ..."
tag=v$version

# check_release: check that the version, the changelog and the tag are consistent.
check_release() {
    local newest other
    newest=$(sed -n '/^## \[Unreleased\]/d; s/^## //p' "$ROOT/CHANGELOG.md" | head -n 1)
    [[ $newest == "[$version] - "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] ]] ||
        die "CHANGELOG.md: the newest version is \"$newest\", and NEXT_VERSION says \"[$version] - YEAR-MONTH-DAY\""
    ! sed -n '/^## \[Unreleased\]/,/^## \[[^U]/p' "$ROOT/CHANGELOG.md" | grep -q '^- ' ||
        die "CHANGELOG.md: entries under Unreleased; give them a version, in fairseq_etads/version.py too"
    if git -C "$ROOT" rev-parse --verify --quiet "refs/tags/$tag" >/dev/null; then
        [ "$(git -C "$ROOT" rev-parse "$tag^{commit}")" = "$(git -C "$ROOT" rev-parse HEAD)" ] ||
            die "the tag $tag is on another commit: $version has been released; choose the next version"
    fi
    other=$(git -C "$ROOT" tag --points-at HEAD --list 'v*' | grep -vx "$tag" || true)
    [ -z "$other" ] || die "the tag $other is on this commit, and NEXT_VERSION is $version"
    say "version and changelog agree on $version"
}
[ -n "$unreleased" ] || check_release
[ -z "$check" ] || exit 0

start=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${venv:-$work/venv}
unset PYTHONPATH

[ -z "$unreleased" ] || version=$("$python" "$ROOT/fairseq_etads/version.py")
say "building $version"
mkdir "$work/source" "$work/dist" "$work/trial"
git -C "$ROOT" archive HEAD | tar -C "$work/source" -xf -
printf 'Version: %s\n' "$version" > "$work/source/PKG-INFO"  # the archive contains the commit but not the version of the release
"$python" -m venv "$work/build"
"$work/build/bin/python" -m pip --disable-pip-version-check --quiet install -c "$ROOT/constraints.txt" setuptools wheel
# The wheel is built from the unpacked sdist in order to check that the sdist is complete.
(cd "$work/source" && "$work/build/bin/python" -c 'import sys; from setuptools import build_meta
build_meta.build_sdist(sys.argv[1])' "$work/dist") > "$work/build.log" 2>&1 || { cat "$work/build.log" >&2; die "no sdist"; }
sdist=$(echo "$work"/dist/*.tar.gz)
"$work/build/bin/python" -m pip --disable-pip-version-check --quiet wheel --no-build-isolation --no-deps \
    --wheel-dir "$work/dist" "$sdist"
wheel=$(echo "$work"/dist/*.whl)

say "trying $(basename "$wheel")"
supervise "$work/source/scripts/install.sh" --venv "$venv" --python "$python" --wheel "$wheel"
PATH=$(cd "$venv" && pwd)/bin:$PATH
cd "$work/trial"
installed=$(python -c 'import fairseq_etads, etads_preprocess; print(fairseq_etads.__version__, fairseq_etads.__file__)')
[[ $installed == "$version "*/site-packages/* ]] || die "installed is not the wheel: $installed"
supervise "$work/source/scripts/quickstart.sh" --no-install --steps 10 --out run
supervise "$work/source/scripts/fairseq.sh" run/text fairseq --max-update 10 --cpu
cd "$start"
mkdir -p "$out"
cp "$sdist" "$wheel" "$out"
say "tested successfully: $out/$(basename "$sdist"), $out/$(basename "$wheel")"
if [ -z "$unreleased" ] && [ -z "$(git -C "$ROOT" tag --points-at HEAD --list "$tag")" ]; then
    say "to release it: git tag -a $tag -m \"Version $version\" && git push origin $tag"
fi
