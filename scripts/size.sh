#!/usr/bin/env bash
# Prints the bytes of libbetz.so by crate, and checks the total:
#
#   scripts/size.sh LIBRARY.so NAME [--check]
#
# LIBRARY.so must not be stripped (target/release/libbetz.so). The table on stdout gives code and data of every symbol
# by the crate that its name begins with; symbols without a name are "(unnamed)". With --check the total is compared
# with the last line of benches/record/size.md for NAME:
#
#   | NAME | date | stripped bytes | contents |
#
# The check fails if the total is more than 5 % above it. Then replace that line and give the reason. A NAME without a
# line is not checked.
set -euo pipefail
library=${1:?usage: size.sh LIBRARY.so NAME [--check]}
name=${2:?usage: size.sh LIBRARY.so NAME [--check]}
check=${3:-}
record=$(dirname "$0")/../benches/record/size.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp "$library" "$work/stripped.so"
chmod u+w "$work/stripped.so"
"${STRIP:-strip}" --strip-unneeded "$work/stripped.so"
total=$(stat -c %s "$work/stripped.so")

"${NM:-nm}" --print-size --size-sort --radix=d --demangle "$library" | awk -v total="$total" '
    # 0000000000012345 0000000000000042 t <betz_train::gram::Plan as core::fmt::Debug>::fmt
    # What is in .bss takes no bytes of the file.
    $3 ~ /^[bB]$/ { next }
    # The compiler keeps one of several functions with the same code, under all their names.
    seen[$1 " " $2]++ { next }
    {
        size = $2 + 0
        symbol = $0
        sub(/^[^ ]+ +[^ ]+ +[^ ]+ +/, "", symbol)
        gsub(/^[<&*(\[]+(mut )?(dyn )?/, "", symbol)
        crate = symbol
        if (match(crate, /::/)) crate = substr(crate, 1, RSTART - 1)
        else crate = (crate ~ /^betz_/) ? "betz (exported)" : "(C and compiler)"
        sub(/\[[0-9a-f]+\]$/, "", crate)
        if (crate !~ /^[A-Za-z_0-9]+( \(.*\))?$/ && crate != "(C and compiler)") crate = "(other)"
        bytes[crate] += size
        named += size
    }
    END {
        for (crate in bytes) printf "%10d  %5.1f %%  %s\n", bytes[crate], 100 * bytes[crate] / total, crate
        printf "%10d  %5.1f %%  (unnamed: constants, tables, unwinding)\n", total - named, 100 * (total - named) / total
    }' | sort -rn
printf '%10d  100.0 %%  %s, stripped\n' "$total" "$name"

[ "$check" = --check ] || exit 0
allowed=$(awk -F'|' -v name="$name" '{ gsub(/ /, "", $2); if ($2 == name) { gsub(/[ ,]/, "", $4); last = $4 } } END { print last }' "$record" 2>/dev/null || true)
if [ -z "$allowed" ]; then
    echo "size.sh: benches/record/size.md has no line for $name yet: add one with $total bytes"
    exit 0
fi
if [ $((total * 100)) -gt $((allowed * 105)) ]; then
    echo "size.sh: $name takes $total bytes, more than 5 % above the $allowed of benches/record/size.md:" \
        "replace that line, with the reason" >&2
    exit 1
fi
echo "size.sh: $name: $total bytes, recorded $allowed"
