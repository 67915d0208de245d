#!/usr/bin/env bash
# Builds the Python wheels, one for every CPython from 3.10 on, and checks them:
#
#   scripts/wheel.sh [--out DIR] [x86_64] [aarch64]
#
#   --out DIR   folder for the wheels (default: target/wheels)
#
# Builds both architectures unless one is named; each takes minutes. Zig links them against the symbols of glibc 2.17
# (manylinux2014: every Linux from 2014 on); maturin and ziglang are installed into target/wheel-tools. rustup adds Rust's
# standard library for the other machine. scripts/check_wheel.py checks tag, size and system dependencies, and runs the
# library. For the other machine it uses qemu-user, with Debian's Python and NumPy in target/arm64, if apt-get and qemu are
# installed.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

out=$PWD/target/wheels
machines=()
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    x86_64 | aarch64) machines+=("$1"); shift ;;
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "wheel.sh: expected --out, x86_64 or aarch64, got $1" >&2; exit 2 ;;
    esac
done
[ ${#machines[@]} -gt 0 ] || machines=(x86_64 aarch64)
# A relative folder is the caller's.
case $out in /*) ;; *) out=$from/$out ;; esac

tools=$PWD/target/wheel-tools
if ! "$tools/bin/python" -m ziglang version >/dev/null 2>&1 || ! "$tools/bin/maturin" --version >/dev/null 2>&1; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2' ziglang
fi
export PATH=$tools/bin:$PATH VIRTUAL_ENV=$tools

# Python and NumPy for aarch64, unpacked beside ours: nothing is installed.
arm64_python() {
    local at=$PWD/target/arm64 package
    command -v qemu-aarch64 >/dev/null && command -v apt-get >/dev/null || return 1
    if ! [ -d "$at/site/numpy" ]; then
        rm -rf "$at"
        mkdir -p "$at"/{state/lists/partial,cache/archives/partial,root,site}
        touch "$at/state/status"
        local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$at/state"
            -o Dir::State::status="$at/state/status" -o Dir::Cache="$at/cache" -o APT::Sandbox::User=root)
        "${apt[@]}" update && "${apt[@]}" install -y --download-only --no-install-recommends python3 libstdc++6 || return 1
        for package in "$at"/cache/archives/*.deb; do dpkg -x "$package" "$at/root"; done
        local version
        version=$(qemu-aarch64 -L "$at/root" "$at/root/usr/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        "$tools/bin/pip" install --quiet --disable-pip-version-check --target "$at/site" --only-binary :all: \
            --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
            --python-version "$version" --no-deps numpy || return 1
    fi >&2
    echo "env PYTHONPATH=$at/site qemu-aarch64 -L $at/root $at/root/usr/bin/python3"
}

for machine in "${machines[@]}"; do
    target=$machine-unknown-linux-gnu
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        rustup target add "$target" || {
            echo "wheel.sh: rustc has no standard library for $target, and rustup cannot add it" >&2
            exit 1
        }
    fi
    mkdir -p "$out"
    # Beside the licences, which go into the wheel by their names.
    scripts/notices.py betz-python --features wheel --target "$target" >python/NOTICE-third-party.txt
    maturin build --release --strip --locked --zig --target "$target" --compatibility manylinux2014 \
        --manifest-path python/Cargo.toml --out "$out"
    wheel=$(ls -t "$out"/betz-*_"$machine".whl | head -1)
    if [ "$machine" = aarch64 ] && [ "$(uname -m)" != aarch64 ] && python=$(arm64_python); then
        scripts/check_wheel.py "$wheel" --python "$python"
    else
        scripts/check_wheel.py "$wheel"
    fi
done
