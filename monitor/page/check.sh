#!/bin/sh
# The page: types, its tests, dist/ built anew and compared, and the browser's tests, each where there is what it
# takes; what is left out is said. `check.sh [dist|unit|browser]`: one of them. `check.sh looks`
# makes the pictures anew that the browser's tests compare with.
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
what=${1:-all}
anew=
[ "$what" != looks ] || anew="looks --update-snapshots=all"
skip() { echo "page: $1; skipped" >&2; exit 0; }

command -v node >/dev/null 2>&1 || skip "no Node"
if [ ! -x node_modules/.bin/esbuild ] || ! cmp -s package-lock.json node_modules/.from-lock 2>/dev/null; then
    command -v npm >/dev/null 2>&1 || skip "no npm"
    timeout 180 npm ci --ignore-scripts --silent || skip "its packages could not be installed"
    cp package-lock.json node_modules/.from-lock
fi

if [ "$what" = all ] || [ "$what" = dist ]; then
    npx --no-install tsc --noEmit
    node build.mjs
    if [ -n "$(git -C "$root" status --porcelain -- monitor/page/dist)" ]; then
        echo "page: dist/ is not what the sources make; run node build.mjs and commit it" >&2
        git -C "$root" --no-pager diff --stat -- monitor/page/dist >&2
        exit 1
    fi
fi
if [ "$what" = all ] || [ "$what" = unit ]; then
    node test/run.mjs
fi
if [ "$what" = all ] || [ "$what" = browser ] || [ -n "$anew" ]; then
    chromium=${BETZ_CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}
    [ -n "$chromium" ] || skip "no chromium"
    watched=${BETZ_WATCHED:-$root/target/debug/examples/watched}
    [ -n "${BETZ_WATCHED:-}" ] || (cd "$root" && cargo build --quiet -p betz-monitor --example watched) || skip "no session to watch"
    shown=${BETZ_SHOWN:-$root/target/debug/examples/shown}
    [ -n "${BETZ_SHOWN:-}" ] || (cd "$root" && cargo build --quiet -p betz-monitor --example shown) || skip "nothing to look at"
    BETZ_CHROMIUM=$chromium BETZ_WATCHED=$watched BETZ_SHOWN=$shown npx --no-install playwright test -c e2e/playwright.config.mjs $anew
fi
