#!/usr/bin/env bash
# Installs the package, builds and runs the C and C++ examples and tests from it, not from the tree.
#
#   ffi/tests/run.sh            all but the sanitizers' rebuilds; what CI runs
#   ffi/tests/run.sh --full     also ThreadSanitizer and AddressSanitizer inside the library
#                               (rebuilds it twice), and the fuzz targets for ten minutes each
#   BETZ_PROFILE=debug ffi/tests/run.sh   with a library that is built quickly: all but its size is tested
#   BETZ_KEEP=DIR ffi/tests/run.sh      keeps the programs behind benches/record/ffi.md, `latency` and
#                               `soak`, and the library they were built against, in DIR
#
# Needs gcc, g++, cmake, pkg-config; clang, lld, valgrind and 32-bit headers (gcc-multilib) are used where
# they are. What cargo builds is shared
# with the rest of the tree: the release profile for the package, the dev profile for the panics.
set -euo pipefail
cd "$(dirname "$0")/../.."

full=${1:-}
profile=${BETZ_PROFILE:-release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=$work/package
warnings=(-Wall -Wextra -Werror -pedantic)

step() {
    local name=$1 start=$SECONDS
    shift
    echo "---- $name"
    "$@"
    echo "---- $name: $((SECONDS - start)) s"
}

compile() { # TEST PROGRAM [FLAGS...]: a C test against the installed package
    local test=$1 program=$2
    shift 2
    # shellcheck disable=SC2046
    gcc -std=gnu11 -O1 -g "${warnings[@]}" "$@" "ffi/tests/c/$test.c" -o "$work/$program" \
        $(PKG_CONFIG_PATH=$package/lib/pkgconfig pkg-config --cflags --libs betz) \
        -lm -pthread "-Wl,-rpath,$package/lib" '-Wl,-rpath,$ORIGIN'
}

install_package() {
    # Reuses the build of scripts/instructions.py, or that of the tests.
    local flags=(--with-operations)
    [ "$profile" = release ] || flags=(--with-workspace --debug)
    scripts/install.sh --prefix "$package" "${flags[@]}"
    cp -r "$package" "$work/moved" # the package may be moved: it is used from here on
    rm -r "$package"
    package=$work/moved
}

library() {
    local so=$package/lib/libbetz.so foreign
    foreign=$(nm -D --defined-only "$so" | awk '{print $3}' | grep -v '^betz_' || true)
    [ -z "$foreign" ] || { echo "exported besides betz_*: $foreign"; return 1; }
    foreign=$(nm --extern-only --defined-only "$package/lib/libbetz.a" |
        awk 'NF == 3 && $3 !~ /^betz_/ {print $3}')
    [ -z "$foreign" ] || { echo "libbetz.a: visible besides betz_*: $foreign"; return 1; }
    readelf -d "$so" | grep -E 'SONAME|NEEDED'
    foreign=$(readelf -d "$so" | grep NEEDED |
        grep -vE '\[(libc\.so\.6|libm\.so\.6|libgcc_s\.so\.1|libpthread\.so\.0|ld-linux[-a-z0-9_.]*)\]' || true)
    [ -z "$foreign" ] || { echo "needs more than the C library: $foreign"; return 1; }
    foreign=$(nm -D --undefined-only "$so" | grep -E ' (v?fork|execv[a-z]*|posix_spawnp?)(@|$)' || true)
    [ -z "$foreign" ] || { echo "can start processes: $foreign"; return 1; }
    local size
    size=$(stat -Lc %s "$so")
    echo "libbetz.so: $size bytes stripped"
    [ "$profile" = release ] || return 0
    scripts/size.sh "${CARGO_TARGET_DIR:-target}/release/libbetz.so" training,lab,cuda --check
    vectors
}

# Checks that the hot loops of a step use vector instructions. If the linking crate is optimised for size, LTO optimises
# all others for size too, and only timings show it.
vectors() {
    [ "$(uname -m)" = x86_64 ] || return 0
    local loop products
    for loop in sum_counts sum_fired sum_spikes advance_filters; do
        products=$(objdump -d --no-show-raw-insn "${CARGO_TARGET_DIR:-target}/release/libbetz.so" |
            awk -v loop="$loop.*avx512" '/^[0-9a-f]+ </ { inside = $0 ~ loop }
                                         inside && /v(mul|add)pd.*zmm/ { n++ } END { print n + 0 }')
        [ "$products" -ge 8 ] || { echo "$loop: expected vectors of 512 bits, got $products"; return 1; }
    done
}

# Load and step alone: small, and all that it has works.
runtime_only() {
    local slim=$work/slim size flags=()
    [ "$profile" = release ] || flags=(--debug)
    scripts/install.sh --prefix "$slim" --parts runtime "${flags[@]}"
    gcc -std=c99 "${warnings[@]}" examples/c/decode.c -o "$work/decode_slim" "-I$slim/include" \
        "-L$slim/lib" -lbetz "-Wl,-rpath,$slim/lib"
    diff <("$work/decode_slim" "$work/examples/model.betz" 50 2>/dev/null) \
        <("$work/examples/decode" "$work/examples/model.betz" 50 2>/dev/null)
    ! nm -D --defined-only "$slim/lib/libbetz.so" | grep -E ' betz_(train|miner|network|sorter|clusterless)' ||
        { echo "expected no training, no mining, no networks and no sorting"; return 1; }
    size=$(stat -Lc %s "$slim/lib/libbetz.so")
    echo "libbetz.so, runtime only: $size bytes stripped"
    [ "$profile" = release ] || return 0
    [ "$size" -le 1000000 ] || { echo "runtime only: expected at most 1,000,000 bytes"; return 1; }
    scripts/size.sh "${CARGO_TARGET_DIR:-target}/release/libbetz.so" runtime --check
}

# The runtime alone for aarch64, shared and static, under emulation: the same lines as here.
aarch64() {
    local target=aarch64-unknown-linux-gnu arm=$work/arm run=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] ||
        ! { command -v qemu-aarch64 && command -v aarch64-linux-gnu-gcc; } >/dev/null; then
        echo "skipped: needs rustc's $target, qemu-user and gcc-aarch64-linux-gnu"
        return 0
    fi
    scripts/install.sh --prefix "$arm" --parts runtime --target "$target" --debug
    aarch64-linux-gnu-gcc -std=c99 "${warnings[@]}" examples/c/decode.c -o "$work/decode_arm" "-I$arm/include" \
        "-L$arm/lib" -lbetz "-Wl,-rpath,$arm/lib"
    aarch64-linux-gnu-gcc -std=c99 "${warnings[@]}" examples/c/decode.c -o "$work/decode_arm_static" \
        "-I$arm/include" "$arm/lib/libbetz.a" -lgcc_s -lm -lpthread -ldl -lc
    local program
    for program in decode_arm decode_arm_static; do
        diff <("${run[@]}" "$work/$program" "$work/examples/model.betz" 50 2>/dev/null) \
            <("$work/decode_slim" "$work/examples/model.betz" 50 2>/dev/null)
    done
}

# libbetz.a beside another Rust library, in either order, with every linker there is.
neighbours() {
    local order linker
    cat >"$work/other.rs" <<'RUST'
use std::collections::HashMap;
#[no_mangle]
pub extern "C" fn other_sum(n: u32) -> u64 {
    let all: HashMap<u32, u64> = (0..n).map(|i| (i, u64::from(i))).collect();
    let caught = std::panic::catch_unwind(|| std::thread::spawn(move || all.values().sum::<u64>()).join());
    caught.ok().and_then(Result::ok).unwrap_or(0)
}
RUST
    cat >"$work/both.c" <<'C'
#include <betz.h>
#include <stdio.h>
unsigned long long other_sum(unsigned n);
int main(int argc, char **argv) {
    betz_model *model = NULL;
    if (argc != 2 || betz_model_load(argv[1], &model) != BETZ_OK) return 1;
    printf("%u %llu\n", betz_model_channels(model), other_sum(1000));
    betz_model_free(model);
    return other_sum(1000) != 499500;
}
C
    rustc --edition 2018 -O --crate-type staticlib "$work/other.rs" -o "$work/libother.a" 2>/dev/null
    for linker in "gcc" "gcc -fuse-ld=lld" "clang" "clang -fuse-ld=lld"; do
        if ! command -v "${linker%% *}" >/dev/null ||
            { [[ $linker == *lld ]] && ! command -v ld.lld >/dev/null; }; then
            echo "no $linker: skipped"
            continue
        fi
        for order in "$package/lib/libbetz.a $work/libother.a" "$work/libother.a $package/lib/libbetz.a"; do
            # shellcheck disable=SC2086
            $linker "$work/both.c" "-I$package/include" $order -lgcc_s -lm -lpthread -ldl -o "$work/both"
            "$work/both" "$work/examples/model.betz" >/dev/null
        done
        echo "$linker: links before and after another Rust library"
    done
}

headers() {
    local std
    echo '#include <betz.h>
#include <betz.h>
int main(void) { return 0; }' >"$work/header.c"
    echo '#include <betz.hpp>
#include <betz.h>
int main() { return 0; }' >"$work/header.cpp"
    for std in c89 c99 c11 c17; do
        gcc "-std=$std" "${warnings[@]}" -fsyntax-only "-I$package/include" "$work/header.c"
    done
    if [ -e /usr/include/x86_64-linux-gnu/gnu/stubs-32.h ] || [ -e /usr/include/gnu/stubs-32.h ]; then
        for std in c89 c11; do
            gcc -m32 "-std=$std" "${warnings[@]}" -fsyntax-only "-I$package/include" "$work/header.c"
        done
    else
        echo "no 32-bit headers: skipped"
    fi
    if command -v clang >/dev/null; then
        for std in c89 c99 c11 c17; do
            clang "-std=$std" "${warnings[@]}" -fsyntax-only "-I$package/include" "$work/header.c"
        done
        for std in c++17 c++20; do
            clang++ "-std=$std" "${warnings[@]}" -fsyntax-only "-I$package/include" "$work/header.cpp"
        done
        # clang reads all that gcc compiles and runs below.
        clang -std=gnu11 "${warnings[@]}" -fsyntax-only "-I$package/include" -idirafter ffi/include ffi/tests/c/*.c
        clang -std=c99 "${warnings[@]}" -fsyntax-only "-I$package/include" examples/c/{decode,mine,sort,train}.c
        clang++ -std=c++17 "${warnings[@]}" -fsyntax-only "-I$package/include" ffi/tests/c/wrapper.cpp
        clang++ -std=c++17 -fno-exceptions "${warnings[@]}" -fsyntax-only "-I$package/include" \
            ffi/tests/c/no_exceptions.cpp
    else
        echo "no clang: skipped"
    fi
    # A status that nobody looks at is warned of, in C and in C++.
    echo '#include <betz.h>
void drop(betz_session *session) { betz_session_reset(session); }' >"$work/drop.c"
    ! gcc "${warnings[@]}" -c "-I$package/include" "$work/drop.c" -o "$work/drop.o" 2>/dev/null ||
        { echo "expected a warning of a status that is dropped"; return 1; }
    for std in c++17 c++20 c++23; do
        g++ "-std=$std" "${warnings[@]}" -fsyntax-only "-I$package/include" "$work/header.cpp"
    done
}

examples() {
    local data=$PWD/examples/data
    cmake -S examples -B "$work/examples" -DCMAKE_BUILD_TYPE=Release \
        "-DCMAKE_PREFIX_PATH=$package" >/dev/null
    cmake --build "$work/examples" --parallel >/dev/null
    (
        cd "$work/examples"
        ./train model.betz 2>/dev/null
        ./decode model.betz 1000 | tail -1
        diff <(./decode model.betz 50 2>/dev/null) <(./decode_static model.betz 50 2>/dev/null)
        # The linker leaves out what a program does not call.
        local size
        size=$(stat -Lc %s decode_static)
        [ "$profile" != release ] || [ "$size" -le 4500000 ] ||
            { echo "decode_static: expected at most 4500000 bytes, got $size"; return 1; }
        ./mine
        ./sort "$data/array.sorter" 40
        ./controller model.betz --seconds 1
        # A clean end on SIGINT: exit code 0 and the table.
        ./controller model.betz --seconds 60 >interrupted.txt &
        sleep 0.5
        kill -INT $!
        wait $!
        grep -q 'decoding step' interrupted.txt
    )
    # pkg-config, as the examples' comments say.
    # shellcheck disable=SC2046
    gcc -std=c99 "${warnings[@]}" examples/c/decode.c -o "$work/decode" \
        $(PKG_CONFIG_PATH=$package/lib/pkgconfig pkg-config --cflags --libs betz)
    LD_LIBRARY_PATH=$package/lib "$work/decode" "$work/examples/model.betz" 3 >/dev/null
}

# The library with every part, as a package: sessions, recalibration, the page and spiking networks, under the same tests of memory, real time and
# handles. It is built for development, because the tests have built its parts so: HDF5 and the web server are not compiled
# again.
parts() {
    local whole=$work/whole test flags
    scripts/install.sh --prefix "$whole" --with-workspace --debug --parts training,lab,cuda,live,page,spiking
    [ "$(PKG_CONFIG_PATH=$whole/lib/pkgconfig pkg-config --variable=parts betz)" = "training lab cuda live page spiking" ]
    # shellcheck disable=SC2046
    flags=("${warnings[@]}" $(PKG_CONFIG_PATH=$whole/lib/pkgconfig pkg-config --cflags --libs betz) -lm -pthread
        "-Wl,-rpath,$whole/lib")
    gcc -std=c99 examples/c/watch.c -o "$work/watch" "${flags[@]}"
    BETZ_CACHE=$work/cache "$work/watch" "$work/examples/model.betz" 0.1 | grep '^http://127.0.0.1' >/dev/null
    gcc -std=c99 examples/c/live.c -o "$work/live" "${flags[@]}"
    printf '[session]\nmodel = "examples/model.betz"\n[[source]]\nname = "c"\nfrom = "push"\nsends = "steps"\n[missing]\nstale_after = "1h"\n' \
        >"$work/session.toml"
    "$work/live" "$work/session.toml" 96 | grep '^100 steps' >/dev/null
    for test in recalibrate handles memory realtime spiking; do
        gcc -std=gnu11 -O1 -g "ffi/tests/c/$test.c" -o "$work/$test-whole" "${flags[@]}"
        "$work/$test-whole"
    done
    gcc -std=gnu11 -O1 -g ffi/tests/c/spiking.c -o "$work/spiking-sanitized" "${flags[@]}" \
        -fsanitize=address,undefined -fno-sanitize-recover=undefined
    ASAN_OPTIONS=detect_leaks=1 "$work/spiking-sanitized"
    g++ -std=c++17 -O1 -g ffi/tests/c/spiking.cpp -o "$work/spiking-cpp" "${flags[@]}"
    "$work/spiking-cpp"
    # The listing of the documentation.
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' docs/spiking.md >"$work/listing.c"
    gcc -std=c99 "$work/listing.c" -o "$work/listing" "${flags[@]}"
    "$work/listing" | grep -x '1000 steps, 152 spikes' >/dev/null
    for std in c++17 c++20 c++23; do
        echo '#include <betz_live.hpp>
#include <betz_page.hpp>
#include <betz_spiking.hpp>
int main() {
    return betz::live().get() != nullptr || betz::monitor().get() != nullptr || betz::spiking().get() != nullptr;
}' >"$work/parts.cpp"
        g++ "-std=$std" -fsyntax-only "$work/parts.cpp" "-I$whole/include" "${warnings[@]}"
        g++ "-std=$std" -fno-exceptions -fsyntax-only "$work/parts.cpp" "-I$whole/include" "${warnings[@]}"
    done
}

# A library of each set of parts, optimised: their sizes (benches/record/size.md).
sizes() {
    local set
    for set in runtime training training,lab,cuda training,kinds training,live training,page training,spiking \
        training,kinds,lab,cuda,live,page; do
        scripts/install.sh --prefix "$work/sizes" --parts "$set" >/dev/null
        scripts/size.sh "${CARGO_TARGET_DIR:-target}/release/libbetz.so" "$set" --check | tail -2
    done
}

conformance() {
    local test
    for test in lifecycle refusals growth steps samples kinds block log process memory threads handles miner network trainer \
        sorter clusterless faults realtime soak; do
        compile "$test" "$test"
        "$work/$test"
    done
    compile latency latency -O2
    "$work/latency" 1e5
    # The record's figures are those of longer runs of these two.
    if [ -n "${BETZ_KEEP:-}" ]; then
        mkdir -p "$BETZ_KEEP"
        cp -P "$work/latency" "$work/soak" "$package"/lib/libbetz.so* "$BETZ_KEEP/"
    fi
    g++ -std=c++17 -O1 "${warnings[@]}" ffi/tests/c/wrapper.cpp -o "$work/wrapper" \
        "-I$package/include" "-L$package/lib" -lbetz -ldl "-Wl,-rpath,$package/lib"
    "$work/wrapper"
    # With std::span and std::expected.
    g++ -std=c++23 -O1 "${warnings[@]}" ffi/tests/c/wrapper.cpp -o "$work/wrapper_23" \
        "-I$package/include" "-L$package/lib" -lbetz -ldl "-Wl,-rpath,$package/lib"
    "$work/wrapper_23"
    g++ -std=c++17 -O1 -fno-exceptions "${warnings[@]}" ffi/tests/c/no_exceptions.cpp \
        -o "$work/no_exceptions" "-I$package/include" "-L$package/lib" -lbetz "-Wl,-rpath,$package/lib"
    "$work/no_exceptions" "$work/examples/model.betz"
}

# The cost of a step has not grown. It is counted, so it does not depend on the load.
cost() {
    [ "$profile" = release ] || { echo "skipped: needs a release build"; return 0; }
    scripts/step_cost.sh "$package" --check
}

panics() { # against a library that panics on demand, never packaged; made as the packaged one is
    # The whole workspace and an example, with CI's features: everything but libbetz is built already.
    cargo build --workspace --lib --example train_and_decode \
        --features "${BETZ_FEATURES:+$BETZ_FEATURES,}betz-library/provoke-panic,betz-library/kinds"
    scripts/localise.sh "${CARGO_TARGET_DIR:-target}/debug/libbetz.a" "$work/libbetz_panics.a"
    gcc -std=gnu11 -g "${warnings[@]}" ffi/tests/c/poison.c -o "$work/poison" "-I$package/include" \
        "$work/libbetz_panics.a" -lgcc_s -lm -lpthread -ldl
    "$work/poison" 2>/dev/null
    # The same library trains every kind of decoder.
    gcc -std=gnu11 -g "${warnings[@]}" ffi/tests/c/kinds.c -o "$work/kinds_all" "-I$package/include" \
        "$work/libbetz_panics.a" -lgcc_s -lm -lpthread -ldl
    "$work/kinds_all"
}

sanitizers() {
    local test
    for test in lifecycle refusals growth samples kinds block log threads handles miner network trainer sorter clusterless; do
        compile "$test" "$test-sanitized" -fsanitize=address,undefined -fno-sanitize-recover=undefined
        ASAN_OPTIONS=detect_leaks=1 "$work/$test-sanitized"
    done
}

# Runs the programs of `conformance`.
valgrind_() {
    local test
    if ! command -v valgrind >/dev/null; then
        echo "no valgrind: skipped"
        return 0
    fi
    for test in lifecycle refusals growth miner network trainer sorter; do
        # "Possibly lost" is what the threads of the training pool hold: they live to the end.
        valgrind --quiet --error-exitcode=9 --leak-check=full \
            --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
            "$work/$test"
    done
}

step "install" install_package
step "library" library
step "headers" headers
step "examples" examples
step "the page and a session, packaged" parts
step "runtime only" runtime_only
step "aarch64" aarch64
step "beside another Rust library" neighbours
step "conformance" conformance
step "cost of a step" cost
step "panics" panics
step "address and leak sanitizers" sanitizers
step "valgrind" valgrind_
if [ "$full" = --full ]; then
    step "sizes of the parts" sizes
    step "sanitizers inside the library" ffi/tests/sanitize.sh
    step "fuzz, ten minutes each" ffi/fuzz/run.sh 600
fi
