#!/usr/bin/env bash
# ThreadSanitizer over everything that two threads share:
#
#   scripts/tsan.sh          base, runtime, online trainer, the recorder's ring, the page's tap, and libbetz from C
#   scripts/tsan.sh base|runtime|train|live|page|c ...    only these; the first two are CI's step
#   scripts/tsan.sh --all    all tests of these crates and more C programs: for a night
#
# The sanitizer must see the standard library, too, so it is built from source, by Debian's rustc-web, cargo-web and
# rust-web-src (installed if they are missing and this is root). The sanitizer's run time is that of the installed
# toolchain. What is built is kept in target/tsan. ffi/tests/tsan.supp names what is suppressed: rayon's hand-overs.
#
# First a race on purpose must be reported. A run that reports nothing else is a pass.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
[ "$(uname -m)" = x86_64 ] || { echo "tsan.sh: skipped: x86-64 only"; exit 0; }
runtime=$(rustc --print sysroot)/lib/rustlib/$target/lib/librustc-stable_rt.tsan.a
[ -e "$runtime" ] || { echo "tsan.sh: skipped: the toolchain has no $(basename "$runtime")"; exit 0; }
have() { [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ]; }
if ! have && [ "$(id -u)" = 0 ]; then
    apt-get update -qq && apt-get install -y -qq rustc-web cargo-web rust-web-src >/dev/null || true
fi
have || { echo "tsan.sh: skipped: needs rustc-web, cargo-web and rust-web-src"; exit 0; }
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 /usr/bin/cargo fetch --quiet --locked -Zbuild-std --target "$target" ||
    { echo "tsan.sh: skipped: the packages that the standard library is built from cannot be had"; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# rustc leaves out the libraries that the run time needs. The tests' names of its functions are found when they run.
mkdir "$work/bin"
cat >"$work/bin/cc" <<'LINKER'
#!/usr/bin/env bash
kept=()
for argument in "$@"; do
    [ "$argument" = -nodefaultlibs ] || kept+=("$argument")
done
exec /usr/bin/cc "${kept[@]}" -Wl,--unresolved-symbols=ignore-all -Wl,-Bdynamic -Wl,--no-as-needed -lm -lrt -ldl \
    -lpthread -lgcc_s -lc
LINKER
chmod +x "$work/bin/cc"
flags="-Zsanitizer=thread -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer"
whole="-Clink-arg=-Wl,--whole-archive -Clink-arg=$runtime -Clink-arg=-Wl,--no-whole-archive"

sanitized() { # COMMAND ARGUMENTS: cargo with the sanitizer
    local command=$1
    shift
    PATH="$work/bin:$PATH" RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 CARGO_INCREMENTAL=0 \
        RUSTFLAGS="$flags $whole -Clink-arg=-Wl,--export-dynamic" \
        TSAN_OPTIONS="allocator_may_return_null=1 suppressions=$PWD/ffi/tests/tsan.supp" \
        /usr/bin/cargo "$command" --locked -Zbuild-std --target "$target" --target-dir target/tsan "$@"
}

race() {
    local said=$work/race
    if sanitized test --quiet -p betz-base --features pool --lib -- --ignored a_race_on_purpose >"$said" 2>&1; then
        cat "$said"
        echo "tsan.sh: expected a report of the race on purpose, got none: the sanitizer does not see"
        return 1
    fi
    if grep -q 'FATAL: ThreadSanitizer' "$said"; then
        grep 'FATAL: ThreadSanitizer' "$said"
        echo "tsan.sh: skipped: the sanitizer cannot run on this kernel"
        exit 0
    fi
    grep -q 'WARNING: ThreadSanitizer: data race' "$said" || { cat "$said"; return 1; }
    echo "a race on purpose: reported"
}

rust() { # PACKAGE ARGUMENTS
    sanitized test --quiet -p "$@"
}

c() { # TESTS: C programs against libbetz.a
    local test
    # The archive alone: the run time cannot be part of a shared library.
    sanitized rustc --quiet -p betz-library --lib --crate-type staticlib --no-default-features --features train,lab
    for test in "$@"; do
        gcc -std=gnu11 -O1 -g -fsanitize=thread -c "ffi/tests/c/$test.c" -Iffi/include -o "$work/$test.o"
        gcc "$work/$test.o" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive "target/tsan/$target/debug/libbetz.a" \
            -Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-all -lgcc_s -lm -lpthread -ldl -lrt -o "$work/$test"
        TSAN_OPTIONS="allocator_may_return_null=1 suppressions=$PWD/ffi/tests/tsan.supp" "$work/$test"
    done
}

all=
[ "${1:-}" != --all ] || { all=1; shift; }
[ $# -gt 0 ] || set -- base runtime train live page c
for part in "$@"; do
    start=$SECONDS
    case $part in
    base) race && rust betz-base --features pool --lib ;;
    # Sessions alone take half a minute of arithmetic more; two threads are in these tests.
    runtime) if [ -n "$all" ]; then rust betz-runtime --test sessions --lib; else rust betz-runtime --test sessions -- model_swap from_outside spike_queue tap thread; fi ;;
    train) if [ -n "$all" ]; then rust betz-train --lib; else rust betz-train --lib online::; fi ;;
    live) if [ -n "$all" ]; then rust betz-live; else rust betz-live --test live record; fi ;;
    page) if [ -n "$all" ]; then rust betz-monitor --lib; else rust betz-monitor --lib feed; fi ;;
    # Not `handles`: it counts threads, and the run time has one of its own.
    c) c threads trainer ${all:+lifecycle miner network sorter} ;;
    *) echo "tsan.sh: expected --all, base, runtime, train, live, page or c, got $part" >&2; exit 2 ;;
    esac
    echo "tsan.sh: $part: $((SECONDS - start)) s"
done
