#!/usr/bin/env bash
# Collects programs to test and measure on a machine with a GPU into gpu-bundle/: tests, benches, measurement programs and
# the command line, stripped; run-tests.sh; and compare_mine.py and compare_surrogates.py, which compare `betz mine` on the
# device with the CPU. Build here, copy the folder, and run it there. The other machine needs a CUDA 13 driver and
# libraries (NVRTC, cuBLAS, cuFFT, cuSOLVER), and no Rust.
#
#   scripts/gpu-bundle.sh            # everything
#   scripts/gpu-bundle.sh tests      # tests only
#   scripts/gpu-bundle.sh tests betz-device betz-episode     # tests of these crates
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

# Prints "-p NAME" for the given crates, or for every crate below crates/ that has a feature `cuda`: they hold the GPU tests.
cuda_crates() {
    if [ $# -gt 0 ]; then
        printf -- '-p %s ' "$@"
        return
    fi
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, pathlib, sys
for package in json.load(sys.stdin)["packages"]:
    folder = pathlib.Path(package["manifest_path"]).parent
    if folder.parent.parent.name == "crates" and "cuda" in package["features"]:
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
    # A binary without a GPU test is removed. grep reads all of the list, because a closed pipe would fail the binary.
    "$tests" cuda --list 2>/dev/null | grep ': test$' >/dev/null || rm "$tests"
done
if [ "${1:-}" != tests ]; then
    cargo bench -p betz --bench gpu_train --bench gpu_gram --bench gpu_psc --bench gpu_network --bench episode --no-run --message-format=json-render-diagnostics | executables | collect ""
    cargo build --release -p betz-cli -p betz-programs --bin betz --bin convolution --bin delays --bin products --bin episode_devices --bin som_record --bin spiking_record \
        --message-format=json-render-diagnostics | executables | collect ""
    cp scripts/compare_mine.py scripts/compare_surrogates.py benches/peers/*.py benches/compare/convolution.py "$out"
fi
cat > "$out/run-tests.sh" <<'RUN'
#!/usr/bin/env bash
# Runs every test that uses a GPU, crate by crate; with "sanitize", also under compute-sanitizer. A failure does not stop it;
# the last line names the crates that failed.
set -uo pipefail
cd "$(dirname "$0")"
failed=()

# each COMMAND… -- ARGUMENT…: runs the command on every crate's GPU tests.
each() {
    local before=() tests
    while [ "$1" != -- ]; do before+=("$1"); shift; done
    shift
    for tests in ./test-*; do
        echo "──── ${before[*]} $tests"
        # One test at a time, because some set a cap on the shared memory.
        "${before[@]}" "$tests" cuda --test-threads 1 "$@" || failed+=("${before[*]} $tests")
    done
}

each --
if [ "${1:-}" = sanitize ]; then
    # The sanitizer is tens of times slower: run fewer random cases, and none of millions of steps.
    export BETZ_CUDA_CASES=${BETZ_CUDA_CASES:-20}
    # Failed calls are ignored, because some tests ask for more memory than the device has.
    each compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 -- \
        --skip an_hour
    each compute-sanitizer --tool racecheck --error-exitcode 1 -- \
        --skip an_hour --skip long_episodes --skip every_cap
fi
[ ${#failed[@]} -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}"; exit 1; }
echo "all crates passed"
RUN
chmod +x "$out/run-tests.sh"
du -sh "$out"
