#!/usr/bin/env bash
# Fuzzes the C ABI under AddressSanitizer.
#
#   ffi/fuzz/run.sh SECONDS [TARGET...]      targets: model_load_bytes, calls, miner (default: all)
#
# Coverage-guided by libFuzzer, on the stable compiler (RUSTC_BOOTSTRAP=1); what it finds is written
# to ffi/fuzz/artifacts: fix it and keep the input in ffi/fuzz/corpus/TARGET, which
# `cargo test -p betz-ffi --test calls fuzz_corpus` replays. New inputs that only add coverage are kept in
# target/, not in the tree.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
[ $# -gt 0 ] || set -- model_load_bytes calls miner
target=$(rustc -vV | sed -n 's/^host: //p')
build=../../target/fuzz

RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1" \
    cargo build --release --target "$target" --target-dir "$build"

mkdir -p artifacts
for name in "$@"; do
    mkdir -p "$build/corpus/$name"
    # Handles are freed at the end of each input, so that leaks show; the pool's threads are no leak.
    "$build/$target/release/$name" "$build/corpus/$name" "corpus/$name" \
        -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -timeout=20 \
        -artifact_prefix=artifacts/ -print_final_stats=1
done
