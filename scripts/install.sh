#!/usr/bin/env bash
# Builds libbetz and lays out an installed package:
#
#   scripts/install.sh --prefix DIR [--no-cuda]
#
#   DIR/include/{betz.h,betz.hpp}
#   DIR/lib/libbetz.so -> libbetz.so.ABI, libbetz.a
#   DIR/lib/pkgconfig/betz.pc
#   DIR/lib/cmake/betz/betzConfig.cmake, betzConfigVersion.cmake
#
# DESTDIR is put in front of DIR, as packagers expect. The package may be moved: nothing in it names
# its own place.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

usage() {
    sed -n '2,12s/^# \{0,1\}//p' "$0"
    exit "$1"
}

prefix=
features=()
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=${2:?--prefix needs a folder}; shift 2 ;;
    --prefix=*) prefix=${1#*=}; shift ;;
    --no-cuda) features=(--no-default-features); shift ;;
    -h | --help) usage 0 ;;
    *) echo "install.sh: unknown argument $1" >&2; usage 2 >&2 ;;
    esac
done
[ -n "$prefix" ] || usage 2 >&2
# A relative folder is the caller's.
case $prefix in /*) ;; *) prefix=$from/$prefix ;; esac

cargo build --release --package betz-library "${features[@]}"
built=${CARGO_TARGET_DIR:-target}/release

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
abi=$(sed -n 's/^#define BETZ_ABI_VERSION \([0-9]*\)/\1/p' ffi/include/betz.h)
static_libs="-lgcc_s -lm -lpthread -ldl -lc"
readelf -d "$built/libbetz.so" | grep -q "\[libbetz.so.$abi\]" || {
    echo "install.sh: the soname of $built/libbetz.so is not libbetz.so.$abi" >&2
    exit 1
}

root=${DESTDIR:-}$prefix
fill() { # TEMPLATE TARGET
    sed -e "s|@VERSION@|$version|g; s|@MAJOR_MINOR@|${version%.*}|g; s|@ABI@|$abi|g" \
        -e "s|@STATIC_LIBS@|$static_libs|g" "$1" >"$2"
    chmod 644 "$2"
}
install -d "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/betz"
install -m 644 ffi/include/betz.h ffi/include/betz.hpp "$root/include/"
install -m 755 "$built/libbetz.so" "$root/lib/libbetz.so.$abi"
strip --strip-unneeded "$root/lib/libbetz.so.$abi"
ln -sf "libbetz.so.$abi" "$root/lib/libbetz.so"
scripts/localise.sh "$built/libbetz.a" "$root/lib/libbetz.a"
chmod 644 "$root/lib/libbetz.a"
fill ffi/package/betz.pc.in "$root/lib/pkgconfig/betz.pc"
fill ffi/package/betzConfig.cmake.in "$root/lib/cmake/betz/betzConfig.cmake"
fill ffi/package/betzConfigVersion.cmake.in "$root/lib/cmake/betz/betzConfigVersion.cmake"
echo "Betz $version (ABI $abi) is in $root"
