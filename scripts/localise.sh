#!/usr/bin/env bash
# Makes one archive of another in which only betz_* can be seen from outside:
#
#   scripts/localise.sh IN.a OUT.a
#
# Rust's own symbols (rust_eh_personality, the standard library's, those of every dependency) become
# local, so that they do not collide with those of another Rust library in the same program. LD,
# OBJCOPY, STRIP and AR name the tools, for another target than this machine.
set -euo pipefail
in=${1:?usage: localise.sh IN.a OUT.a}
out=${2:?usage: localise.sh IN.a OUT.a}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# One object, its sections kept apart: a program linked with --gc-sections still drops what it does
# not use. The compiler's bitcode would only confuse linkers with an LLVM plugin.
"${LD:-ld}" -r --whole-archive "$in" -o "$work/betz.o"
"${OBJCOPY:-objcopy}" --wildcard --keep-global-symbol='betz_*' \
    --remove-section=.llvmbc --remove-section=.llvmcmd "$work/betz.o"
"${STRIP:-strip}" --strip-debug "$work/betz.o"
rm -f "$out"
"${AR:-ar}" rcs "$out" "$work/betz.o"
