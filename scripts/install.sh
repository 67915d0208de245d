#!/usr/bin/env bash
# Builds libbetz and lays out an installed package:
#
#   scripts/install.sh --prefix DIR [--parts LIST] [--with-operations | --with-workspace] [--target TRIPLE] [--debug]
#
#   --parts         the parts of the library, separated by commas (default: training,lab,cuda):
#                     runtime   load, step and swap models, and queues: in every library
#                     training  train linear decoders, adapt online, compare with training
#                     kinds     also train lifts, experts, Kalman, place and recurrent decoders, and classes
#                     live      a whole session (betz_live.h); includes training
#                     page      the page of a session (betz_page.h)
#                     spiking   networks of spiking neurons (betz_spiking.h); includes training
#                     lab       mine episodes, compute networks, sort spikes
#                     cuda      train on CUDA devices, loaded at run time
#   --with-operations  build with the features of scripts/instructions.py, so that neither compiles anything again; the
#                   linker removes unused code, so the library does not grow
#   --with-workspace  build with the features of the whole workspace and those in BETZ_FEATURES, so that nothing is
#                   compiled again after CI's tests (with --debug); the parts are added to the default ones
#   --target        build for another machine (aarch64-unknown-linux-gnu); needs Rust's standard library for it
#                   and a C cross-compiler: TRIPLE's own, or the one in CC, or CROSS (a prefix such as
#                   aarch64-linux-gnu-)
#   --debug         build quickly, for tests of the package; the library is slow and large
#
#   DIR/include/{betz.h,betz.hpp}, and {betz_live,betz_page,betz_spiking}.{h,hpp} with these parts
#   DIR/lib/libbetz.so -> libbetz.so.ABI, libbetz.a
#   DIR/lib/pkgconfig/betz.pc
#   DIR/lib/cmake/betz/betzConfig.cmake, betzConfigVersion.cmake
#
# DESTDIR is prepended to DIR, as packagers expect. The package may be moved: it contains no absolute
# paths.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

usage() {
    sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "$0"
    exit "$1"
}

prefix=
parts=training,lab,cuda
build=parts
target=
profile=(--release)
folder=release
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=${2:?--prefix needs a folder}; shift 2 ;;
    --prefix=*) prefix=${1#*=}; shift ;;
    --parts) parts=${2:?--parts needs a list}; shift 2 ;;
    --parts=*) parts=${1#*=}; shift ;;
    --with-operations) build=operations; shift ;;
    --with-workspace) build=workspace; shift ;;
    --target) target=${2:?--target needs a triple}; shift 2 ;;
    --target=*) target=${1#*=}; shift ;;
    --debug) profile=(); folder=debug; shift ;;
    -h | --help) usage 0 ;;
    *) echo "install.sh: unknown argument $1" >&2; usage 2 >&2 ;;
    esac
done
wanted=()
for part in ${parts//,/ }; do
    case $part in
    runtime) ;;
    training) wanted+=(betz-library/train) ;;
    kinds | live | page | spiking | lab | cuda) wanted+=("betz-library/$part") ;;
    *) echo "install.sh: --parts: expected runtime, training, kinds, live, page, spiking, lab or cuda, got $part" >&2; exit 2 ;;
    esac
done
wanted=$(IFS=,; echo "${wanted[*]}")
case $build in
parts) packages=(--package betz-library) features=(--no-default-features --features "$wanted") ;;
operations)
    packages=(--package betz-library --package betz-programs --lib --bin operations)
    features=(--no-default-features --features "betz-library/default,$wanted")
    ;;
workspace)
    packages=(--workspace --lib --example train_and_decode)
    features=(--features "${BETZ_FEATURES:+$BETZ_FEATURES,}$wanted")
    ;;
esac
has() { [[ ,$parts, == *,$1,* ]]; }
[ -n "$prefix" ] || usage 2 >&2
# A relative folder is the caller's.
case $prefix in /*) ;; *) prefix=$from/$prefix ;; esac

built=${CARGO_TARGET_DIR:-target}/$folder
strip=strip
if [ -n "$target" ]; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        echo "install.sh: rustc has no standard library for $target (rustup target add $target)" >&2
        exit 1
    fi
    built=${CARGO_TARGET_DIR:-target}/$target/$folder
    features+=(--target "$target")
    if [ "$target" != "$host" ]; then
        # aarch64-unknown-linux-gnu: the tools are aarch64-linux-gnu-gcc and so on.
        CROSS=${CROSS-${target/-unknown-/-}-}
        linker=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")_LINKER
        export "$linker=${CC:-${CROSS}gcc}"
        export LD=${LD:-${CROSS}ld} OBJCOPY=${OBJCOPY:-${CROSS}objcopy} AR=${AR:-${CROSS}ar}
        export STRIP=${STRIP:-${CROSS}strip} READELF=${READELF:-${CROSS}readelf} NM=${NM:-${CROSS}nm}
        strip=$STRIP
        command -v "${!linker}" >/dev/null || {
            echo "install.sh: no ${!linker} to link with (set CC or CROSS)" >&2
            exit 1
        }
    fi
fi
# betz_version_full() tells them.
BETZ_COMMIT=${BETZ_COMMIT-$(git rev-parse HEAD 2>/dev/null || true)}
BETZ_RUSTC=$(rustc --version)
export BETZ_COMMIT BETZ_RUSTC
cargo build "${profile[@]}" "${packages[@]}" "${features[@]}"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
abi=$(sed -n 's/^#define BETZ_ABI_VERSION \([0-9]*\)/\1/p' ffi/include/betz.h)
static_libs="-lgcc_s -lm -lpthread -ldl -lc"
"${READELF:-readelf}" -d "$built/libbetz.so" | grep -q "\[libbetz.so.$abi\]" || {
    echo "install.sh: the soname of $built/libbetz.so is not libbetz.so.$abi" >&2
    exit 1
}

root=${DESTDIR:-}$prefix
fill() { # TEMPLATE TARGET
    sed -e "s|@VERSION@|$version|g; s|@MAJOR_MINOR@|${version%.*}|g; s|@ABI@|$abi|g" \
        -e "s|@STATIC_LIBS@|$static_libs|g; s|@PARTS@|${parts//,/ }|g" "$1" >"$2"
    chmod 644 "$2"
}
install -d "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/betz"
install -m 644 ffi/include/betz.h ffi/include/betz.hpp "$root/include/"
for part in live page spiking; do
    # A header of a part that an earlier installation had would only fail to link.
    rm -f "$root/include/betz_$part.h" "$root/include/betz_$part.hpp"
    ! has "$part" || install -m 644 "ffi/include/betz_$part.h" "ffi/include/betz_$part.hpp" "$root/include/"
done
install -m 755 "$built/libbetz.so" "$root/lib/libbetz.so.$abi"
"$strip" --strip-unneeded "$root/lib/libbetz.so.$abi"
ln -sf "libbetz.so.$abi" "$root/lib/libbetz.so"
scripts/localise.sh "$built/libbetz.a" "$root/lib/libbetz.a"
chmod 644 "$root/lib/libbetz.a"
fill ffi/package/betz.pc.in "$root/lib/pkgconfig/betz.pc"
fill ffi/package/betzConfig.cmake.in "$root/lib/cmake/betz/betzConfig.cmake"
fill ffi/package/betzConfigVersion.cmake.in "$root/lib/cmake/betz/betzConfigVersion.cmake"
echo "Betz $version (ABI $abi, parts: ${parts//,/ }) is in $root"
