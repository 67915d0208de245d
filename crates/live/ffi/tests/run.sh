#!/usr/bin/env bash
# The session for C: live.c, recalibrate.c and examples/c/live.c against libbetz_live.so as cargo builds it, and models that are trained
# here. Needs gcc; its sanitizers, if it has them, check what is written to the caller's memory, and that all of it is freed.
set -euo pipefail
cd "$(dirname "$0")/../../../.."

command -v gcc >/dev/null || { echo "the session for C: no gcc; skipped" >&2; exit 0; }
built=${CARGO_TARGET_DIR:-target}/debug
# CI's features and an example, so that nothing but the libraries is built after the tests.
cargo build --quiet --workspace --lib --bin betz --example train_and_decode ${BETZ_FEATURES:+--features "$BETZ_FEATURES"}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() { # SOURCE PROGRAM [FLAGS]
    gcc -std=c99 -O1 -Wall -Wextra -Werror -pedantic "${@:3}" "$1" -Iffi/include -Iffi/tests/c -Icrates/live/ffi/include -L"$built" \
        -lbetz_live -lm "-Wl,-rpath,$(cd "$built" && pwd)" -o "$2"
}
compile crates/live/ffi/tests/live.c "$work/live"
compile examples/c/live.c "$work/example"
compile crates/live/ffi/tests/recalibrate.c "$work/recalibrate" -D_GNU_SOURCE
"$work/recalibrate"
echo '#include <betz_live.h>' >"$work/only.cpp"
if command -v g++ >/dev/null; then
    g++ -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only -Iffi/include -Icrates/live/ffi/include "$work/only.cpp"
fi
foreign=$(nm -D --defined-only "$built/libbetz_live.so" | awk '{print $3}' | grep -v '^betz_' || true)
[ -z "$foreign" ] || { echo "exported besides betz_*: $foreign"; exit 1; }
if nm -D --defined-only "$built/libbetz.so" | grep ' betz_live'; then
    echo "libbetz has a session in it"
    exit 1
fi

export BETZ_CACHE=$work/cache
for n in 12 7; do
    "$built/betz" simulate --neurons "$n" --seconds 12 --tick 0.001 --out "$work/$n.npz" >/dev/null
    "$built/betz" train "$work/$n.npz" --out "$work/$n.betz" >/dev/null
done
"$work/live" "$work/12.betz" "$work/7.betz" "$work"
if compile crates/live/ffi/tests/live.c "$work/sanitized" -fsanitize=address,undefined 2>/dev/null; then
    "$work/sanitized" "$work/12.betz" "$work/7.betz" "$work"
    compile crates/live/ffi/tests/recalibrate.c "$work/recalibrate" -D_GNU_SOURCE -fsanitize=address,undefined
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
