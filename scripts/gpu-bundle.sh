#!/usr/bin/env bash
# Collects what is needed to test and measure on a machine with a GPU into gpu-bundle/: the test and
# bench binaries, stripped, and run-tests.sh. Build here, copy, run there; no Rust is needed there,
# only a CUDA 13 driver and libraries (NVRTC, cuBLAS, cuSOLVER).
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

cargo test -p betz --lib --no-run --message-format=json 2>/dev/null | executables | collect test-
if [ "${1:-}" != tests ]; then
    cargo bench -p betz --bench gpu_train --bench episode --no-run --message-format=json 2>/dev/null | executables | collect ""
fi
cat > "$out/run-tests.sh" <<'RUN'
#!/usr/bin/env bash
# Every test that uses a GPU; with "sanitize", also under compute-sanitizer.
set -euo pipefail
cd "$(dirname "$0")"
./test-betz cuda
if [ "${1:-}" = sanitize ]; then
    for tool in memcheck racecheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 1 ./test-betz cuda --test-threads 1
    done
fi
RUN
chmod +x "$out/run-tests.sh"
du -sh "$out"
