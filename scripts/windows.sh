#!/usr/bin/env bash
# Builds Betz for Windows (x86-64) on Linux, and runs it under Wine beside this system:
#
#   scripts/windows.sh [STEP ...]      tests, library and program, or these steps:
#     core       unit tests of base and runtime, models and sessions: the part of tests that CI runs
#     tests      core, the clock of sessions, and the bits of steps and of trainings
#     library    betz.dll from C: the same bits as libbetz.so
#     program    the command line's decode floor: demo, train and decode, the same bytes as here
#
# Rust's standard library is built from source, by Debian's rustc-web, cargo-web and rust-web-src; MinGW compiles C. What is
# missing is installed, if this is root. What is built is kept in target/portable.
set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")/.."
root=$PWD

have() {
    [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ] &&
        command -v x86_64-w64-mingw32-gcc-posix wine >/dev/null
}
if ! have && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends rustc-web cargo-web rust-web-src \
        gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix mingw-w64-x86-64-dev wine64 wine >/dev/null || true
fi
have || { echo "windows.sh: skipped: needs rustc-web, cargo-web, rust-web-src, MinGW and Wine"; exit 0; }

target=x86_64-pc-windows-gnu
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo fetch --quiet --locked -Zbuild-std --target "$target" ||
    { echo "windows.sh: skipped: the packages that the standard library is built from cannot be had"; exit 0; }
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_DEV_STRIP=debuginfo
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc-posix
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
export WINEPREFIX=$root/target/portable/wine WINEDEBUG=-all
built=target/portable/$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() { # COMMAND ARGUMENTS...: of Debian's Cargo, with the standard library from source
    local command=$1
    shift
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo "$command" --quiet --locked -Zbuild-std=std,panic_unwind,panic_abort --target "$target" \
        --target-dir target/portable "$@"
}

step() {
    local start=$SECONDS
    "$1"
    echo "windows.sh: $1: $((SECONDS - start)) s"
}

wine_home() {
    # Wine 8 lacks a library of which Rust needs one function.
    local stub=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    [ -e "$stub" ] && return 0
    mkdir -p target/portable
    wineboot -i >/dev/null 2>&1 || true
    printf '%s\n' '#include <windows.h>' 'BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);' \
        '__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }' >"$work/stub.c"
    x86_64-w64-mingw32-gcc-posix -O1 -shared -o "$stub" "$work/stub.c" -ladvapi32
}

core() {
    # Loom's tests switch stacks, on which panics cannot unwind under Wine.
    build test -p betz-base -p betz-runtime --lib --test model_file --test sessions
}

tests() {
    build test -p betz-base -p betz-runtime --lib --test model_file --test realtime --test session_memory --test sessions
    build test -p betz-train --no-default-features --test bits
}

library() {
    build rustc -p betz-library --no-default-features --crate-type cdylib
    cargo build --quiet --locked -p betz-library --no-default-features
    # The C library does without chains of layers.
    local models=(crates/decode/runtime/tests/fixtures/!(layers).betz)
    x86_64-w64-mingw32-gcc-posix -O1 -Iffi/include ffi/tests/c/bits.c "$built/debug/libbetz.dll.a" -o "$work/bits.exe"
    cp "$built/debug/betz.dll" "$work"
    gcc -O1 -Iffi/include ffi/tests/c/bits.c -Ltarget/debug -lbetz "-Wl,-rpath,$work" -o "$work/bits"
    ln -s "$root/target/debug/libbetz.so" "$work/libbetz.so.2"
    "$work/bits" "${models[@]}" >"$work/here"
    wine "$work/bits.exe" "${models[@]}" | tr -d '\r' >"$work/there"
    diff "$work/here" "$work/there"
    echo "windows.sh: $(wc -l <"$work/here") models, 5,000 steps each: the same bits"
}

recording() { # FILE: 60 s of 12 channels whose rates follow two outputs, as .npz
    python3 - "$1" <<'PYTHON'
import math, random, struct, sys, zipfile

def npy(kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data

random.seed(1)
steps, channels = 3000, 12
moved = [(math.sin(0.02 * t) + 0.5 * math.sin(0.053 * t), math.cos(0.031 * t)) for t in range(steps)]
counts = bytearray()
for x, y in moved:
    for c in range(channels):
        rate = 0.4 + 0.25 * (x * math.cos(c) + y * math.sin(c))
        counts.append(sum(random.random() < rate / 4 for _ in range(4)))
with zipfile.ZipFile(sys.argv[1], "w") as file:
    file.writestr("counts.npy", npy("|u1", (steps, channels), bytes(counts)))
    file.writestr("behavior.npy", npy("<f4", (steps, 2), b"".join(struct.pack("<2f", *p) for p in moved)))
    file.writestr("step_seconds.npy", npy("<f8", (), struct.pack("<d", 0.02)))
PYTHON
}

# The same commands in two folders, by two builds; what they write is compared byte by byte.
commands() { # PROGRAM...
    "$@" demo --seed 2 --neurons 40 --picture demo.svg
    test -s demo.svg
    local kind
    for kind in linear lift experts kalman; do
        "$@" train recording.npz --decoder "$kind" --out "$kind.betz"
        "$@" decode "$kind.betz" recording.npz --out "$kind.csv"
    done
}

program() {
    build build -p betz-decode
    cargo build --quiet --locked -p betz-decode
    mkdir "$work/here" "$work/there"
    recording "$work/here/recording.npz"
    cp "$work/here/recording.npz" "$work/there"
    (cd "$work/here" && commands "$root/target/debug/betz-decode" >../here.log 2>&1) || { cat "$work/here.log"; return 1; }
    (cd "$work/there" && commands wine "$root/$built/debug/betz-decode.exe" >../there.log 2>&1) || { cat "$work/there.log"; return 1; }
    local file
    for file in "$work"/here/*.{betz,csv}; do
        cmp "$file" "$work/there/${file##*/}"
    done
    echo "windows.sh: demo, and four kinds trained and decoded: models and outputs are the same bytes"
}

wine_home
[ $# -gt 0 ] || set -- tests library program
for name in "$@"; do
    case $name in
    core | tests | library | program) step "$name" ;;
    *) echo "windows.sh: expected core, tests, library or program, got $name" >&2; exit 2 ;;
    esac
done
