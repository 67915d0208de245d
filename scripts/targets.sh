#!/usr/bin/env bash
# Builds Betz on Linux for other systems and processors, and runs it beside this machine:
#
#   scripts/targets.sh [TARGET ...]     all targets, or these:
#     musl       static programs for any x86-64 Linux
#     aarch64    under qemu-aarch64
#
# The tests: those of base and runtime, and the hashes of steps (tests/sessions/bits.rs) and of trainings (train/tests/bits.rs)
# of every kind, which are those of this machine. scripts/windows.sh has the tests under Wine.
#
# Rust's standard library is built from source, by Debian's rustc-web, cargo-web and rust-web-src. What is missing is installed,
# if this is root. A target whose tools are missing is skipped with a line. What is built is kept in target/portable.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

targets=()
for argument in "$@"; do
    case $argument in
    musl | aarch64) targets+=("$argument") ;;
    -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "targets.sh: expected musl or aarch64, got $argument" >&2; exit 2 ;;
    esac
done
[ ${#targets[@]} -gt 0 ] || targets=(musl aarch64)

have_rust() { [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ]; }
tools() { # TARGET: the programs that it needs
    case $1 in
    musl) echo musl-gcc ar ;;
    aarch64) echo aarch64-linux-gnu-gcc qemu-aarch64 ;;
    esac
}
packages() { # TARGET: their Debian packages
    case $1 in
    musl) echo musl-tools binutils ;;
    aarch64) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ;;
    esac
}
have() {
    local tool
    have_rust || return 1
    for tool in $(tools "$1"); do
        command -v "$tool" >/dev/null || return 1
    done
}

missing=()
for target in "${targets[@]}"; do
    # shellcheck disable=SC2207 # names of packages
    have "$target" || missing+=($(packages "$target"))
done
have_rust || missing+=(rustc-web cargo-web rust-web-src)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
fi

export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_DEV_STRIP=debuginfo
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc
# musl-gcc makes a position-independent static program that asks for a loader.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-L$root/target/portable/musl -Clink-self-contained=no -Crelocation-model=static"

triple() {
    case $1 in
    musl) echo x86_64-unknown-linux-musl ;;
    aarch64) echo aarch64-unknown-linux-gnu ;;
    esac
}

build() { # TARGET COMMAND ARGUMENTS...: of Debian's Cargo, with the standard library from source
    local target=$1 command=$2
    shift 2
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo "$command" --quiet --locked \
        -Zbuild-std=std,panic_unwind,panic_abort --target "$(triple "$target")" --target-dir target/portable "$@"
}

unwinder() {
    # Rust unwinds by LLVM's libunwind, which Debian has for glibc only. GCC's does the same, with a function of glibc's that
    # scripts/musl_unwind.c has for musl.
    local at=target/portable/musl
    mkdir -p "$at"
    musl-gcc -O1 -c scripts/musl_unwind.c -o "$at/unwind.o"
    cp "$(gcc -print-file-name=libgcc_eh.a)" "$at/libunwind.a"
    ar q "$at/libunwind.a" "$at/unwind.o"
}

tests() { # TARGET
    build "$1" test -p betz-base -p betz-runtime --lib --test model_file --test sessions
    build "$1" test -p betz-train --no-default-features --test bits
    echo "targets.sh: $1: steps and trainings of every kind have the bits of this machine"
}

for target in "${targets[@]}"; do
    have "$target" || {
        echo "targets.sh: $target: skipped: needs rustc-web, cargo-web, rust-web-src and $(packages "$target")"
        continue
    }
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo fetch --quiet --locked -Zbuild-std --target "$(triple "$target")" || {
        echo "targets.sh: $target: skipped: the packages that the standard library is built from cannot be had"
        continue
    }
    start=$SECONDS
    [ "$target" != musl ] || unwinder
    tests "$target"
    echo "targets.sh: $target: $((SECONDS - start)) s"
done
