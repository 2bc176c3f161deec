#!/usr/bin/env bash
# Build the website from docs/, or serve it to a browser. Broken links and pages missing from mkdocs.yml are errors.
# scripts/pictures.py takes the screenshots again.
#
#   scripts/docs.sh [--out DIR] [--serve]
#
#   --out DIR   output folder (default: site in the repository)
#   --serve     serve the site at http://127.0.0.1:8000 instead, and reload it whenever a page changes; press Ctrl-C to
#               stop the server
#
# The script requires the extra "docs" (pip install -c constraints.txt ".[docs]") and Python 3.11 or newer. The pages
# load nothing from other servers.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$ROOT/site serve=""
parse_options "--out --serve!" "$@"
if ! command -v mkdocs >/dev/null; then
    [ -x "$VENV/bin/mkdocs" ] || die "mkdocs is not installed: pip install -c constraints.txt \".[docs]\""
    export PATH="$VENV/bin:$PATH"
fi
export NO_MKDOCS_2_WARNING=1  # constraints.txt contains compatible versions
if [ -n "$serve" ]; then
    cd "$ROOT"
    supervise mkdocs serve --strict
    exit
fi
mkdir -p "$out" && out=$(cd "$out" && pwd)  # mkdocs interprets relative paths from its configuration folder
cd "$ROOT"
# The option --quiet is not used, because --strict would then count no warnings.
supervise mkdocs build --strict --site-dir "$out"
say "the site: $out/index.html"
