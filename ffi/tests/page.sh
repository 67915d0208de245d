#!/usr/bin/env bash
# The page for C: examples/c/watch.c and page.c against libbetz.so with the part "page", as cargo builds it, a model that is
# trained here, and a viewer. Needs gcc and curl.
set -euo pipefail
cd "$(dirname "$0")/../.."

for tool in gcc curl; do
    command -v "$tool" >/dev/null || { echo "the page for C: no $tool; skipped" >&2; exit 0; }
done
built=${CARGO_TARGET_DIR:-target}/debug
# CI's features and an example, so that nothing but the libraries is built after the tests.
cargo build --quiet --workspace --lib --bin betz --example train_and_decode \
    --features "${BETZ_FEATURES:+$BETZ_FEATURES,}betz-library/live,betz-library/page,betz-library/spiking"
work=$(mktemp -d)
trap 'kill "${watch:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
# Programs ask for the library by its soname.
ln -s "$(cd "$built" && pwd)/libbetz.so" "$work/libbetz.so.2"

compile() { # SOURCE PROGRAM
    gcc -std=c99 -O1 -Wall -Wextra -Werror -pedantic "$1" -Iffi/include -L"$built" -lbetz \
        "-Wl,-rpath,$work" -o "$2"
}
compile examples/c/watch.c "$work/watch"
compile ffi/tests/c/page.c "$work/refusals"
export BETZ_CACHE=$work/cache
for n in 12 7; do
    "$built/betz" simulate --neurons "$n" --seconds 12 --tick 0.001 --out "$work/$n.npz" >/dev/null
    "$built/betz" train "$work/$n.npz" --decoder linear --out "$work/$n.betz" >/dev/null
done
"$work/refusals" "$work/12.betz" "$work/7.betz"

"$work/watch" "$work/12.betz" 20 >"$work/said" &
watch=$!
for _ in $(seq 100); do [ -s "$work/said" ] && break; sleep 0.1; done
url=$(head -1 "$work/said")
token=${url##*token=} address=${url%%/\?*}
[ "$(curl -s -o /dev/null -w '%{http_code}' "$address/api/state")" = 401 ]
steps() {
    curl -sf -H "Authorization: Bearer $token" "$address/metrics" | awk '$1 == "betz_steps_total" {print $2}'
}
curl -sf -H "Authorization: Bearer $token" "$address/api/state" | grep -q '"channels":12'
first=$(steps)
sleep 1
second=$(steps)
echo "a session of C's: $first steps, then $second"
[ "$second" -gt "$first" ]
kill "$watch"
echo "the page for C: passed"
