#!/usr/bin/env bash
# The session for C: live.c, recalibrate.c and examples/c/live.c against libbetz.so with the part "live", as cargo builds it, and models
# that are trained here. Needs gcc; its sanitizers, if it has them, check what is written to the caller's memory, and that all of it is freed.
set -euo pipefail
cd "$(dirname "$0")/../.."

command -v gcc >/dev/null || { echo "the session for C: no gcc; skipped" >&2; exit 0; }
built=${CARGO_TARGET_DIR:-target}/debug
# CI's features and an example, so that nothing but the libraries is built after the tests.
cargo build --quiet --workspace --lib --bin betz --example train_and_decode \
    --features "${BETZ_FEATURES:+$BETZ_FEATURES,}betz-library/live,betz-library/page,betz-library/spiking"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Programs ask for the library by its soname.
ln -s "$(cd "$built" && pwd)/libbetz.so" "$work/libbetz.so.2"

compile() { # SOURCE PROGRAM [FLAGS]
    gcc -std=c99 -O1 -Wall -Wextra -Werror -pedantic "${@:3}" "$1" -Iffi/include -Iffi/tests/c -L"$built" \
        -lbetz -lm "-Wl,-rpath,$work" -o "$2"
}
compile ffi/tests/c/live.c "$work/live"
compile examples/c/live.c "$work/example"
compile ffi/tests/c/recalibrate.c "$work/recalibrate" -D_GNU_SOURCE
"$work/recalibrate"
compile ffi/tests/c/handles.c "$work/handles" -std=gnu11
"$work/handles"
echo '#include <betz_live.h>' >"$work/only.cpp"
if command -v g++ >/dev/null; then
    g++ -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only -Iffi/include "$work/only.cpp"
fi
export BETZ_CACHE=$work/cache
for n in 12 7; do
    "$built/betz" simulate --neurons "$n" --seconds 12 --tick 0.001 --out "$work/$n.npz" >/dev/null
    "$built/betz" train "$work/$n.npz" --decoder linear --out "$work/$n.betz" >/dev/null
done
"$work/live" "$work/12.betz" "$work/7.betz" "$work"
if compile ffi/tests/c/live.c "$work/sanitized" -fsanitize=address,undefined 2>/dev/null; then
    "$work/sanitized" "$work/12.betz" "$work/7.betz" "$work"
    compile ffi/tests/c/recalibrate.c "$work/recalibrate" -D_GNU_SOURCE -fsanitize=address,undefined
    "$work/recalibrate"
else
    echo "no sanitizers here: skipped"
fi
printf '[session]\nmodel = "12.betz"\n[[source]]\nname = "c"\nfrom = "push"\nsends = "steps"\n[missing]\nstale_after = "1h"\n' \
    >"$work/session.toml"
"$work/example" "$work/session.toml" 12 >"$work/said"
tail -1 "$work/said"
[ "$(grep -c '^step ' "$work/said")" = 100 ]
echo "the session for C: passed"
