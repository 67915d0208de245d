#!/usr/bin/env bash
# Collects what is needed to test and measure on a machine with a GPU into gpu-bundle/: the test and
# bench binaries and the command line, stripped, run-tests.sh, and compare_mine.py (`betz mine` on the
# device against the CPU). Build here, copy, run there; no Rust is needed there,
# only a CUDA 13 driver and libraries (NVRTC, cuBLAS, cuSOLVER, cuFFT).
#
#   scripts/gpu-bundle.sh            # tests and benches
#   scripts/gpu-bundle.sh tests      # tests alone
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

collect() {
    while read -r name path; do
        strip -o "$out/$1$name" "$path"
        echo "$out/$1$name"
    done
}

cargo test -p betz --lib --no-run --message-format=json-render-diagnostics | executables | collect test-
if [ "${1:-}" != tests ]; then
    cargo bench -p betz --bench gpu_train --bench gpu_gram --bench gpu_psc --bench episode --no-run --message-format=json-render-diagnostics | executables | collect ""
    cargo build --release -p betz-cli --message-format=json-render-diagnostics | executables | collect ""
    cp scripts/compare_mine.py benches/peers/*.py "$out"
fi
cat > "$out/run-tests.sh" <<'RUN'
#!/usr/bin/env bash
# Every test that uses a GPU; with "sanitize", also under compute-sanitizer.
set -euo pipefail
cd "$(dirname "$0")"
# One at a time: some set a cap on the memory that all share.
./test-betz cuda --test-threads 1
if [ "${1:-}" = sanitize ]; then
    # Tens of times as slow: fewer random cases, and none of millions of steps.
    export BETZ_CUDA_CASES=${BETZ_CUDA_CASES:-20}
    # Calls that fail are not of interest: some tests ask for more memory than there is.
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 \
        ./test-betz cuda --test-threads 1 --skip an_hour
    compute-sanitizer --tool racecheck --error-exitcode 1 \
        ./test-betz cuda --test-threads 1 --skip an_hour --skip long_episodes --skip every_cap
fi
RUN
chmod +x "$out/run-tests.sh"
du -sh "$out"
