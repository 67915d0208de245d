#!/usr/bin/env bash
# Collects what is needed to test and measure on a machine with a GPU into gpu-bundle/: the test and
# bench binaries and the command line, stripped, run-tests.sh, and compare_mine.py and compare_surrogates.py
# (`betz mine` on the device against the CPU). Build here, copy, run there; no Rust is needed there,
# only a CUDA 13 driver and libraries (NVRTC, cuBLAS, cuSOLVER).
#
#   scripts/gpu-bundle.sh            # tests and benches
#   scripts/gpu-bundle.sh tests      # tests alone
#   scripts/gpu-bundle.sh tests betz-device betz-episode     # those of these rooms
set -euo pipefail
cd "$(dirname "$0")/.."
out=${GPU_BUNDLE:-gpu-bundle}
mkdir -p "$out"

# Prints "name executable" of every binary that cargo's messages on stdin name.
executables() {
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["target"]["name"], message["executable"])'
}

# Prints "-p NAME" for the rooms given, or for every room of crates/ that has a feature `cuda`: the GPU tests are theirs.
cuda_crates() {
    if [ $# -gt 0 ]; then
        printf -- '-p %s ' "$@"
        return
    fi
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, pathlib, sys
for package in json.load(sys.stdin)["packages"]:
    room = pathlib.Path(package["manifest_path"]).parent
    if room.parent.name == "crates" and "cuda" in package["features"]:
        print("-p", package["name"])'
}

collect() {
    while read -r name path; do
        strip -o "$out/$1$name" "$path"
        echo "$out/$1$name"
    done
}

rm -f "$out"/test-*
# shellcheck disable=SC2046
cargo test $(cuda_crates "${@:2}") --lib --no-run --message-format=json-render-diagnostics | executables | collect test-
for tests in "$out"/test-*; do
    # One without a test of that name would pass for nothing. All is read: one that writes to a closed pipe fails.
    "$tests" cuda --list 2>/dev/null | grep ': test$' >/dev/null || rm "$tests"
done
if [ "${1:-}" != tests ]; then
    cargo bench -p betz --bench gpu_train --bench gpu_gram --bench gpu_psc --bench gpu_network --bench episode --no-run --message-format=json-render-diagnostics | executables | collect ""
    cargo build --release -p betz-cli --message-format=json-render-diagnostics | executables | collect ""
    cargo build --release -p betz-programs --bin som_record --message-format=json-render-diagnostics | executables | collect ""
    cargo build --release -p betz-programs --bin spiking_record --message-format=json-render-diagnostics | executables | collect ""
    cp scripts/compare_mine.py scripts/compare_surrogates.py benches/peers/*.py "$out"
fi
cat > "$out/run-tests.sh" <<'RUN'
#!/usr/bin/env bash
# Every test that uses a GPU, one room after another; with "sanitize", also under compute-sanitizer.
# Goes on after a failure and says at the end which rooms failed.
set -uo pipefail
cd "$(dirname "$0")"
failed=()

# each COMMAND… -- ARGUMENT…: runs the command on every room's tests that use a GPU.
each() {
    local before=() tests
    while [ "$1" != -- ]; do before+=("$1"); shift; done
    shift
    for tests in ./test-*; do
        echo "──── ${before[*]} $tests"
        # One at a time: some set a cap on the memory that all share.
        "${before[@]}" "$tests" cuda --test-threads 1 "$@" || failed+=("${before[*]} $tests")
    done
}

each --
if [ "${1:-}" = sanitize ]; then
    # Tens of times as slow: fewer random cases, and none of millions of steps.
    export BETZ_CUDA_CASES=${BETZ_CUDA_CASES:-20}
    # Calls that fail are not of interest: some tests ask for more memory than there is.
    each compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 -- \
        --skip an_hour
    each compute-sanitizer --tool racecheck --error-exitcode 1 -- \
        --skip an_hour --skip long_episodes --skip every_cap
fi
[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}"; exit 1; }
echo "all rooms passed"
RUN
chmod +x "$out/run-tests.sh"
du -sh "$out"
