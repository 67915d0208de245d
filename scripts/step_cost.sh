#!/usr/bin/env bash
# Counts what a step costs: instructions and cache lines, without a clock, so that the numbers do not depend on load.
#
#   scripts/step_cost.sh PACKAGE            prints the table of benches/record/step_cost.md
#   scripts/step_cost.sh PACKAGE --check    counts two of its rows, and fails if one has grown by more than 5 %
#
# PACKAGE is where scripts/install.sh has installed a release build. Needs gcc and valgrind. Columns:
#
#   instructions   of one call of betz_session_step_spikes, on average over 20 steps (processors with AVX2)
#   data lines     cache lines of 64 bytes that a step reads or writes, counted when none is in a cache of 32 KiB
#   code lines     cache lines of code that the steps touch
#   session bytes  betz_session_size
#   stack bytes    stack of a step
set -euo pipefail
cd "$(dirname "$0")/.."
package=${1:?usage: step_cost.sh PACKAGE [--check]}
check=${2:-}
record=benches/record/step_cost.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! command -v valgrind >/dev/null || ! grep -qw avx2 /proc/cpuinfo; then
    echo "skipped: needs valgrind and a processor with AVX2"
    exit 0
fi
gcc -std=gnu11 -O2 ffi/tests/c/cost.c -o "$work/cost" "-I$package/include" "-L$package/lib" -lbetz -lm -pthread \
    "-Wl,-rpath,$package/lib"

row() { # CHANNELS FILTERS SPIKES
    local model=$work/$1-$2.betz
    [ -e "$model" ] || "$work/cost" "$model" "$1" "$2"
    valgrind --tool=callgrind --toggle-collect=betz_session_step_spikes --cache-sim=yes \
        --I1=32768,8,64 --D1=32768,8,64 --callgrind-out-file="$work/out" \
        "$work/cost" "$model" "$3" >"$work/printed" 2>/dev/null
    awk -v channels="$1" -v filters="$2" -v spikes="$3" '
        FNR == NR { steps = $2; size = $4; stack = $6; next }
        /^totals:/ {
            # Ir Dr Dw I1mr D1mr D1mw ...
            printf "| %d | %d | %d | %d | %d | %d | %d | %d |\n", channels, filters, spikes,
                $2 / steps + 0.5, ($6 + $7) / steps + 0.5, $5, size, stack
        }' "$work/printed" "$work/out"
}

if [ "$check" = --check ]; then
    for cell in "96 1 3" "96 8 3"; do
        # shellcheck disable=SC2086
        now=$(row $cell)
        before=$(grep -F "| ${cell// / | } |" "$record") || { echo "$record: expected a row for $cell"; exit 1; }
        awk -F'|' -v cell="$cell" 'NR == 1 { for (i = 5; i <= 9; i++) was[i] = $i; next }
            { for (i = 5; i <= 9; i++) if ($i > 1.05 * was[i] + 4) {
                printf "%s: expected at most %d, got %d (column %d); update the record and say why\n", cell, was[i], $i, i
                bad = 1 } }
            END { exit bad }' <(echo "$before") <(echo "$now")
        echo "$now"
    done
    exit 0
fi
echo "| channels | filters | spikes | instructions | data lines | code lines | session bytes | stack bytes |"
echo "|---|---|---|---|---|---|---|---|"
for channels in 96 256; do
    for filters in 1 8; do
        for spikes in 0 3 30 300; do
            row "$channels" "$filters" "$spikes"
        done
    done
done
