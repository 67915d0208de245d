#!/usr/bin/env bash
# The conformance tests with the sanitizers inside the library too.
#
#   ffi/tests/sanitize.sh [thread|address ...]      default: both
#
# The stable compiler does it with RUSTC_BOOTSTRAP=1. The standard library is not rebuilt: memory and
# locks that only it touches are not watched, all of Betz and its dependencies are. Each sanitizer
# needs a build of its own (a few minutes), kept in target/sanitize.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$(rustc -vV | sed -n 's/^host: //p')

for sanitizer in "${@:-thread address}"; do
    # One word a sanitizer, also when the default is taken.
    for name in $sanitizer; do
        RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 \
            RUSTFLAGS="-Zsanitizer=$name -Cunsafe-allow-abi-mismatch=sanitizer" \
            cargo build --package betz-library --no-default-features --target "$target" \
            --target-dir target/sanitize/"$name"
        tests=(threads lifecycle)
        [ "$name" = thread ] || tests=(lifecycle refusals threads)
        for test in "${tests[@]}"; do
            # The C compiler's runtime is the one that is linked; rustc leaves its own out of a
            # static library.
            gcc -std=gnu11 -O1 -g "-fsanitize=$name" "ffi/tests/c/$test.c" -o "$work/$test" \
                -Iffi/include "target/sanitize/$name/$target/debug/libbetz.a" \
                -lgcc_s -lm -lpthread -ldl
            TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/ffi/tests/tsan.supp" \
                ASAN_OPTIONS=detect_leaks=1 "$work/$test"
        done
        echo "$name: ok"
    done
done
