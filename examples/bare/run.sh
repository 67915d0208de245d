#!/usr/bin/env bash
# Builds the runtime and this example without the standard library, and runs the example: it has no C library, and its
# memory is one static block. Then the same for a Cortex-M7, if Rust's crates for it are installed, or Debian's rustc-web, cargo-web and
# rust-web-src, which have their source (BETZ_FROM_SOURCE=1 takes these in any case).
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
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
export RUSTFLAGS="-C target-cpu=cortex-m7"
if [ -z "${BETZ_FROM_SOURCE:-}" ] && [ -d "$(rustc --print sysroot)/lib/rustlib/$m7/lib" ]; then
    cargo build --quiet --locked --target "$m7"
elif [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ] && [ -x "$lld" ]; then
    # From source, as the other cross builds.
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER=$lld \
        /usr/bin/cargo build --quiet --locked -Zbuild-std=core,alloc --target "$m7"
else
    echo "Cortex-M7: skipped: needs rustup target add $m7, or rustc-web, cargo-web and rust-web-src"
    exit 0
fi
if command -v qemu-arm >/dev/null; then
    # QEMU 7.2 cannot run a Cortex-M7 in user mode; this processor has its instructions and more.
    qemu-arm -cpu max "$target/$m7/debug/betz-bare"
    echo "Cortex-M7: the same under qemu-arm"
else
    echo "Cortex-M7: built, not run (no qemu-arm)"
fi
