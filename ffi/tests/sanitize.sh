#!/usr/bin/env bash
# The conformance tests with the sanitizers inside the library too.
#
#   ffi/tests/sanitize.sh [thread|address ...]      default: both
#
# The stable compiler does it with RUSTC_BOOTSTRAP=1. For ThreadSanitizer the standard library is rebuilt (rustup component
# add rust-src): otherwise its mutexes are not seen, and two threads that meet at one look like a race.
# tsan.supp names the training pool. Each sanitizer needs a build of its own (minutes), kept in target/sanitize.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$(rustc -vV | sed -n 's/^host: //p')
[ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ] || rustup component add rust-src

[ $# -gt 0 ] || set -- thread address
for name in "$@"; do
    standard=()
    [ "$name" = address ] || standard=(-Zbuild-std)
    RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 \
        RUSTFLAGS="-Zsanitizer=$name -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo build --package betz-library --no-default-features --features train,mine,network,sort --target "$target" \
        "${standard[@]}" --target-dir target/sanitize/"$name"
    # rustc's own runtime, whole: that of the C compiler may be older than what rustc calls.
    runtime=$(rustc --print sysroot)/lib/rustlib/$target/lib/librustc-stable_rt.${name:0:1}san.a
    tests=(threads lifecycle network sorter miner)
    [ "$name" = thread ] || tests+=(refusals)
    for test in "${tests[@]}"; do
        gcc -std=gnu11 -O1 -g "-fsanitize=$name" -c "ffi/tests/c/$test.c" -Iffi/include \
            -o "$work/$test.o"
        gcc "$work/$test.o" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
            "target/sanitize/$name/$target/debug/libbetz.a" -Wl,--export-dynamic \
            -lgcc_s -lm -lpthread -ldl -lrt -o "$work/$test"
        TSAN_OPTIONS="suppressions=$PWD/ffi/tests/tsan.supp" ASAN_OPTIONS=detect_leaks=1 \
            "$work/$test"
    done
    echo "$name: ok"
done
