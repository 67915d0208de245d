#!/usr/bin/env bash
# Counts what a step costs: instructions and cache lines, without a clock, so that the numbers do not depend on load.
#
#   scripts/step_cost.sh PACKAGE            prints the first table of benches/record/step_cost.md
#   scripts/step_cost.sh PACKAGE --kinds PROGRAM    prints the second one, of the other kinds of decoders; PROGRAM is
#                                           cost_models (cargo build -p betz-programs --bin cost_models), which writes them
#   scripts/step_cost.sh PACKAGE --skips PROGRAM    prints the third one: instructions of betz_session_skip,
#                                           and of the step after one of 1,000 ticks
#   scripts/step_cost.sh PACKAGE --check    counts two rows, and fails if one has grown by more than 5 %
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
package=${1:?usage: step_cost.sh PACKAGE [--check | --kinds PROGRAM | --skips PROGRAM]}
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

# Valgrind counts each byte that `rep movsb` moves as an instruction; glibc takes it for copies of 2 KiB and more.
never=0x10000000
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=$never:glibc.cpu.x86_rep_stosb_threshold=$never

count() { # FUNCTION ARGUMENTS...: counts a function of the library in $work/out
    local function=$1
    shift
    valgrind --tool=callgrind "--toggle-collect=$function" --cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 \
        --callgrind-out-file="$work/out" "$work/cost" "$@" >"$work/printed" 2>/dev/null
}

row() { # KIND CHANNELS FILTERS SPIKES
    local model=$work/$1-$2-$3.betz
    [ "$1" != linear ] || [ -e "$model" ] || "$work/cost" "$model" "$2" "$3"
    count betz_session_step_spikes "$model" "$4"
    awk -v row="| $1 | $2 | $3 | $4 |" '
        FNR == NR { steps = $2; size = $4; stack = $6; next }
        /^totals:/ {
            # Ir Dr Dw I1mr D1mr D1mw ...
            printf "%s %d | %d | %d | %d | %d |\n", row, $2 / steps + 0.5, ($6 + $7) / steps + 0.5, $5, size, stack
        }' "$work/printed" "$work/out"
}

if [ "$check" = --check ]; then
    for cell in "linear 96 1 3" "linear 96 8 3"; do
        # shellcheck disable=SC2086
        now=$(row $cell)
        before=$(grep -F "| ${cell// / | } |" "$record") || { echo "$record: expected a row for $cell"; exit 1; }
        awk -F'|' -v cell="$cell" 'NR == 1 { for (i = 6; i <= 10; i++) was[i] = $i; next }
            { for (i = 6; i <= 10; i++) if ($i > 1.05 * was[i] + 4) {
                printf "%s: expected at most %d, got %d (column %d); update the record and say why\n", cell, was[i], $i, i
                bad = 1 } }
            END { exit bad }' <(echo "$before") <(echo "$now")
        echo "$now"
    done
    exit 0
fi
if [ "$check" = --skips ]; then
    "${3:?expected the program cost_models}" "$work" 96 8
    "$work/cost" "$work/linear-96-8.betz" 96 8
    echo "| decoder | 10 ticks | 1,000 | 100,000 | 2^40 | step after 1,000 |"
    echo "|---|---|---|---|---|---|"
    for model in "$work"/*-96-8.betz; do
        printf '| %s |' "$(basename "$model" -96-8.betz)"
        for ticks in 10 1000 100000 1099511627776; do
            count betz_session_skip "$model" skip "$ticks"
            awk '/^totals:/ { printf " %d |", $2 }' "$work/out"
        done
        count betz_session_step_spikes "$model" skip 1000
        awk '/^totals:/ { printf " %d |\n", $2 }' "$work/out"
    done
    exit 0
fi
echo "| decoder | channels | filters | spikes | instructions | data lines | code lines | session bytes | stack bytes |"
echo "|---|---|---|---|---|---|---|---|---|"
if [ "$check" = --kinds ]; then
    for channels in 96 256; do
        "${3:?expected the program cost_models}" "$work" "$channels" 8
    done
    for kind in "$work"/*-96-8.betz; do
        kind=$(basename "$kind" -96-8.betz)
        for channels in 96 256; do
            for spikes in 3 300; do
                row "$kind" "$channels" 8 "$spikes"
            done
        done
    done
    exit 0
fi
for channels in 96 256; do
    for filters in 1 8; do
        for spikes in 3 300; do
            row linear "$channels" "$filters" "$spikes"
        done
    done
done
