#!/usr/bin/env bash
# Makes one archive of another in which only betz_* can be seen from outside:
#
#   scripts/localise.sh IN.a OUT.a
#
# Rust's own symbols (rust_eh_personality, the standard library's, those of every dependency) become
# local, so that they do not collide with those of another Rust library in the same program. LD,
# OBJCOPY, STRIP, READELF, NM and AR name the tools, for another target than this machine.
set -euo pipefail
in=${1:?usage: localise.sh IN.a OUT.a}
out=${2:?usage: localise.sh IN.a OUT.a}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Calls of std to malloc, and panics, go to functions of libbetz's own (ffi/library/src/system_memory.rs and
# quiet_panics.rs), where it has them.
wrap=()
while read -r function; do
    wrap+=("--wrap=$function")
done < <("${NM:-nm}" --defined-only "$in" 2>/dev/null | sed -n 's/.* __wrap_//p' | sort -u)

# One object, its sections kept apart: a program linked with --gc-sections still drops what it does
# not use. Groups of sections (those of which a linker keeps one of several alike) are resolved here: left
# alone, another library's group of the same name would win over this one's, whose symbols are local by
# then and gone with it. The compiler's bitcode would only confuse linkers with an LLVM plugin.
"${LD:-ld}" -r "${wrap[@]}" --force-group-allocation --whole-archive "$in" -o "$work/betz.o"
"${OBJCOPY:-objcopy}" --wildcard --keep-global-symbol='betz_*' \
    --remove-section=.llvmbc --remove-section=.llvmcmd "$work/betz.o"
"${STRIP:-strip}" --strip-debug "$work/betz.o"
# A group that is left would make the archive fail beside another Rust library.
if "${READELF:-readelf}" --section-groups --wide "$work/betz.o" | grep -q '^COMDAT group section'; then
    echo "localise.sh: $out still has groups of sections: this linker does not resolve them" >&2
    exit 1
fi
rm -f "$out"
"${AR:-ar}" rcs "$out" "$work/betz.o"
