#!/usr/bin/env bash
# Compiles every crate for systems that this machine is not:
#
#   scripts/portable.sh                 checks Windows (x86-64) and macOS (aarch64)
#   scripts/portable.sh TARGET ...      only these targets, by Rust's names
#
# Rust's standard library is built from source, by Debian's rustc-web, cargo-web and rust-web-src (installed if they are
# missing and this is root). No C compiler for the target is needed. What is built is kept in target/portable.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ]; }
if ! have && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq rustc-web cargo-web rust-web-src >/dev/null || true
fi
have || { echo "portable.sh: skipped: needs rustc-web, cargo-web and rust-web-src"; exit 0; }

# All but MPI, which is for clusters, and the measurement programs.
packages=(--workspace --exclude betz-mpi --exclude betz-programs --lib --bins)

[ $# -gt 0 ] || set -- x86_64-pc-windows-gnu aarch64-apple-darwin
for target in "$@"; do
    start=$SECONDS
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 /usr/bin/cargo check --quiet --locked \
        -Zbuild-std=std,panic_unwind,panic_abort --target "$target" --target-dir target/portable "${packages[@]}"
    echo "portable.sh: $target: compiles; $((SECONDS - start)) s"
done
