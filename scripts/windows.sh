#!/usr/bin/env bash
# Builds Betz for Windows (x86-64) on Linux, and runs it under Wine beside this system:
#
#   scripts/windows.sh [STEP ...]      tests, library and program, or these steps:
#     core       unit tests of base and runtime, models and sessions: the part of tests that CI runs
#     tests      core, the clock of sessions, and the bits of steps and of trainings
#     library    betz.dll from C: the same bits as libbetz.so
#     program    the command line's decode floor: demo, train and decode, the same bytes as here
#     zip        target/windows/betz-VERSION-windows-x86_64.zip: betz.exe, betz.dll with all parts, import libraries of MinGW and
#                MSVC, static library of MinGW, headers, CMake files, install.ps1. C programs are built against it with CMake,
#                and run. BETZ_PROFILE=dev builds quickly, for tests of the zip
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

parts=(training kinds live page spiking lab cuda)

# The DLL and the command line, in one build, which compiles nothing twice.
everything() { # PROFILE
    local features=${parts[*]/#/betz-library/}
    features=${features/training/train}
    BETZ_COMMIT=$(git rev-parse HEAD 2>/dev/null || true) BETZ_RUSTC=$(/usr/bin/rustc --version) \
        build build --profile "$1" -p betz-library -p betz-cli --lib --bin betz --features "${features// /,}"
}

zip() {
    local profile=${BETZ_PROFILE:-release} folder version name at needs
    folder=${profile/dev/debug}
    version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
    name=betz-$version-windows-x86_64
    at=$work/$name
    everything "$profile"
    mkdir -p "$at"/{bin,include,lib/cmake/betz} target/windows
    cp "$built/$folder/betz.exe" "$built/$folder/betz.dll" "$at/bin"
    x86_64-w64-mingw32-strip "$at"/bin/*
    cp ffi/include/betz{,_live,_page,_spiking}.{h,hpp} "$at/include"
    cp "$built/$folder/libbetz.dll.a" "$built/$folder/libbetz.a" "$at/lib"
    x86_64-w64-mingw32-strip --strip-debug "$at/lib/libbetz.a"
    import_library "$at"
    local static_libs="kernel32 ntdll userenv ws2_32 dbghelp advapi32 bcrypt avrt winmm iphlpapi ole32 shell32 user32"
    sed -e "s/@PARTS@/${parts[*]}/; s/@STATIC_LIBS@/${static_libs// /;}/" packaging/windows/betzConfig.cmake.in >"$at/lib/cmake/betz/betzConfig.cmake"
    sed -e "s/@VERSION@/$version/g; s/@MAJOR_MINOR@/${version%.*}/g" ffi/package/betzConfigVersion.cmake.in \
        >"$at/lib/cmake/betz/betzConfigVersion.cmake"
    cp packaging/windows/install.ps1 LICENSE-MIT LICENSE-APACHE "$at"
    scripts/notices.py betz-cli --target "$target" >"$at/THIRD-PARTY.txt"
    # A program that needs a DLL of MinGW's does not start on another machine.
    needs=$(x86_64-w64-mingw32-objdump -p "$at"/bin/* | sed -n 's/.*DLL Name: //p' | sort -u)
    if grep -iE '^(libgcc|libstdc|libwinpthread)' <<<"$needs"; then
        echo "windows.sh: zip: expected Windows' own libraries only, got these" >&2
        return 1
    fi
    rm -f "target/windows/$name.zip"
    (cd "$work" && python3 -m zipfile -c "$root/target/windows/$name.zip" "$name")
    zip_works "$root/target/windows/$name.zip" "$name"
    (cd "$at" && stat -c 'windows.sh: zip: %n, %s bytes' bin/* lib/*betz*)
    echo "windows.sh: target/windows/$name.zip, $(stat -c %s "target/windows/$name.zip") bytes"
}

import_library() { # FOLDER: lib/betz.lib for the linkers of MSVC and LLVM, whose format is another than MinGW's
    local at=$1 tool
    {
        echo "LIBRARY betz.dll"
        echo EXPORTS
        x86_64-w64-mingw32-objdump -p "$at/bin/betz.dll" | sed -n 's/^.*\[ *[0-9]*\].*[[:space:]]\(betz_[a-z0-9_]*\)$/\1/p' | sort -u
    } >"$at/lib/betz.def"
    grep -q '^betz_version$' "$at/lib/betz.def"
    for tool in llvm-dlltool llvm-dlltool-{22,21,20,19,18,17,16,15,14}; do
        if command -v "$tool" >/dev/null; then
            "$tool" -m i386:x86-64 -d "$at/lib/betz.def" -l "$at/lib/betz.lib"
            return
        fi
    done
    echo "windows.sh: zip: without lib/betz.lib, because there is no llvm-dlltool; lib.exe /def:betz.def /machine:x64 makes it"
}

zip_works() { # ZIP NAME: C programs against it, by both linkers, and the command line
    local at=$work/unpacked program
    python3 -m zipfile -e "$1" "$at"
    mkdir "$at/program"
    cat >"$at/program/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(program C)
find_package(betz 0.1 REQUIRED COMPONENTS training live)
add_executable(bits $root/ffi/tests/c/bits.c)
target_link_libraries(bits PRIVATE betz::betz)
add_executable(bits_static $root/ffi/tests/c/bits.c)
target_link_libraries(bits_static PRIVATE betz::betz_static)
CMAKE
    cmake -S "$at/program" -B "$at/program/build" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix -Dbetz_DIR="$at/$2/lib/cmake/betz" >/dev/null
    cmake --build "$at/program/build" >/dev/null
    cp "$at/$2/bin/betz.dll" "$at/program/build"
    local model=crates/decode/runtime/tests/fixtures/model_v1.betz
    for program in bits bits_static; do
        wine "$at/program/build/$program.exe" "$model" | tr -d '\r' >"$work/$program"
        grep -qE '^[0-9a-f]{16}$' "$work/$program"
    done
    cmp "$work/bits" "$work/bits_static"
    echo "windows.sh: zip: a C program runs, linked by CMake with the DLL and with the static library"
    by_llvm "$at/$2" || return 1
    (cd "$at" && wine "$2/bin/betz.exe" demo --seed 2 --neurons 40 --picture demo.svg >/dev/null && test -s demo.svg)
    local version=${2#betz-}
    wine "$at/$2/bin/betz.exe" --version | grep -qF "${version%-windows-*}" ||
        { echo "windows.sh: zip: expected betz.exe --version to tell $2" >&2; return 1; }
    echo "windows.sh: zip: betz.exe demo runs"
}

by_llvm() { # FOLDER: a program of MSVC's ABI, linked to betz.lib by LLVM's linker, ends with the number of the ABI
    local lld
    lld=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
    if ! [ -e "$1/lib/betz.lib" ] || ! [ -x "$lld" ] || ! command -v clang >/dev/null; then
        echo "windows.sh: zip: betz.lib is not tested: needs llvm-dlltool, clang and the toolchain's rust-lld"
        return 0
    fi
    printf '%s\n' 'unsigned betz_abi_version(void);' 'unsigned start(void) { return 100 + betz_abi_version(); }' >"$work/abi.c"
    clang --target=x86_64-pc-windows-msvc -O1 -ffreestanding -c "$work/abi.c" -o "$work/abi.obj"
    "$lld" -flavor link /nologo /nodefaultlib /entry:start /subsystem:console "/out:$1/bin/abi.exe" "$work/abi.obj" "$1/lib/betz.lib"
    local result=0 abi
    abi=$(sed -n 's/^#define BETZ_ABI_VERSION \([0-9]*\)/\1/p' "$1/include/betz.h")
    wine "$1/bin/abi.exe" || result=$?
    [ "$result" = $((100 + abi)) ] || { echo "windows.sh: zip: expected the ABI $abi of betz.dll, got $((result - 100))" >&2; return 1; }
    echo "windows.sh: zip: a program of MSVC's ABI is linked to betz.lib by LLVM's linker, and runs"
}

wine_home
[ $# -gt 0 ] || set -- tests library program
for name in "$@"; do
    case $name in
    core | tests | library | program | zip) step "$name" ;;
    *) echo "windows.sh: expected core, tests, library, program or zip, got $name" >&2; exit 2 ;;
    esac
done
