#!/usr/bin/env bash
# Builds the runtime and this example without the standard library, and runs the example: it has no C library, and its
# memory is one static block. Then the same for a Cortex-M7, if Rust's crates for it are installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}/bare
export CARGO_TARGET_DIR=$target

cargo build --quiet -p betz-runtime --no-default-features
cd examples/bare
cargo build --quiet --locked
for symbol in $(nm --undefined-only --format=posix "$target/debug/betz-bare" | cut -d' ' -f1); do
    echo "betz-bare: expected no symbol of a library, got $symbol" >&2
    exit 1
done
"$target/debug/betz-bare"
echo "x86-64: three models stepped from a static block, as with the standard library"

m7=thumbv7em-none-eabihf
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$m7/lib" ]; then
    echo "Cortex-M7: skipped (rustup target add $m7)"
    exit 0
fi
RUSTFLAGS="-C target-cpu=cortex-m7" cargo build --quiet --locked --target "$m7"
if command -v qemu-arm >/dev/null; then
    # QEMU 7.2 cannot run a Cortex-M7 in user mode; this processor has its instructions and more.
    qemu-arm -cpu max "$target/$m7/debug/betz-bare"
    echo "Cortex-M7: the same under qemu-arm"
else
    echo "Cortex-M7: built, not run (no qemu-arm)"
fi
