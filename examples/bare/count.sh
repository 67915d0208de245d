#!/usr/bin/env bash
# Counts the instructions that one step takes on a Cortex-M7, without a board: QEMU executes the same code one instruction
# at a time. The difference of two runs that step a different number of times leaves out opening.
set -euo pipefail
cd "$(dirname "$0")"
m7=thumbv7em-none-eabihf
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../target}/bare
export RUSTFLAGS="-C target-cpu=cortex-m7"

# Instructions of a whole run; $1 as in src/count.rs.
instructions() {
    BETZ_COUNT=$1 cargo build --quiet --locked --release --features count --target $m7
    qemu-arm -cpu max -singlestep -d nochain,exec "$CARGO_TARGET_DIR/$m7/release/betz-bare" 2>&1 >/dev/null | grep -c '^Trace'
}

echo "channels outputs filters spikes instructions"
for size in 96,2,1,0 96,2,1,40 96,2,4,0 96,2,4,40 142,4,4,57; do
    few=$(instructions "$size,100")
    many=$(instructions "$size,200")
    echo "${size//,/ } $(((many - few) / 100))"
done
