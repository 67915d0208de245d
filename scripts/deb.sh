#!/usr/bin/env bash
# Builds the Debian package of the command line, and checks it:
#
#   scripts/deb.sh [--out DIR] [amd64|arm64]
#
#   --out DIR   folder for betz_VERSION_ARCHITECTURE.deb (default: target/deb)
#
# The default architecture is this machine's. For the other one, Debian's cross compiler links (gcc-aarch64-linux-gnu or
# gcc-x86-64-linux-gnu), and qemu-user, if installed, runs the result. The package holds /usr/bin/betz, manual pages,
# completions for Bash, Zsh and fish, the licences of all linked code, and the changelog. dpkg-shlibdeps finds its
# dependencies; CUDA and LSL are loaded at run time if present. Needs dpkg-dev. DEBFULLNAME and DEBEMAIL name the
# maintainer. The script installs the package into an empty root, runs it, removes it, checks that nothing is left, and
# runs lintian if it is installed.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."

out=$PWD/target/deb
here=$(dpkg --print-architecture)
architecture=$here
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    amd64 | arm64) architecture=$1; shift ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "deb.sh: expected --out, amd64 or arm64, got $1" >&2; exit 2 ;;
    esac
done
case $out in /*) ;; *) out=$from/$out ;; esac
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v $tool >/dev/null || { echo "deb.sh: needs $tool (dpkg-dev)" >&2; exit 1; }
done

case $architecture in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; esac
features=(--release --locked -p betz-cli --features manual)
built=${CARGO_TARGET_DIR:-target}/release
if [ "$architecture" = "$here" ]; then
    tools='' run=() force=()
    cargo build -p betz-cli "${features[@]}" --bin betz --example manual
    binary=$built/betz
else
    target=$machine-unknown-linux-gnu
    tools=$machine-linux-gnu- force=(--force-architecture)
    for tool in gcc strip readelf; do
        command -v "$tools$tool" >/dev/null || { echo "deb.sh: needs $tools$tool (gcc-${machine/_/-}-linux-gnu)" >&2; exit 1; }
    done
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        rustup target add "$target" || { echo "deb.sh: rustc has no standard library for $target" >&2; exit 1; }
    fi
    linker=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER
    env "$linker=${tools}gcc" cargo build -p betz-cli "${features[@]}" --bin betz --target "$target"
    cargo build -p betz-cli "${features[@]}" --example manual
    binary=${CARGO_TARGET_DIR:-target}/$target/release/betz
    run=("qemu-$machine" -L "/usr/$machine-linux-gnu")
    command -v "${run[0]}" >/dev/null || { echo "deb.sh: without ${run[0]} what was built is not run" >&2; run=(); }
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
root=$work/root
share=$root/usr/share
doc=$share/doc/betz
umask 022
install -d "$root/DEBIAN" "$doc" "$share/man/man1"
install -D -m 755 "$binary" "$root/usr/bin/betz"
"${tools}strip" --strip-unneeded --remove-section=.comment "$root/usr/bin/betz"

"$built/examples/manual" "$work/made"
for page in "$work"/made/man1/*.1; do
    gzip -9nc "$page" >"$share/man/man1/$(basename "$page").gz"
done
install -D -m 644 "$work/made/betz.bash" "$share/bash-completion/completions/betz"
install -D -m 644 "$work/made/_betz" "$share/zsh/vendor-completions/_betz"
install -D -m 644 "$work/made/betz.fish" "$share/fish/vendor_completions.d/betz.fish"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
maintainer="${DEBFULLNAME:-The Betz developers} <${DEBEMAIL:-betz@localhost.localdomain}>"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
when=$(git log -1 --format=%cD 2>/dev/null || date -R)
printf 'betz (%s-1) unstable; urgency=medium\n\n  * Betz %s.\n\n -- %s  %s\n' "$version" "$version" "$maintainer" "$when" |
    gzip -9n >"$doc/changelog.Debian.gz"
scripts/notices.py betz-cli --target "$machine-unknown-linux-gnu" | gzip -9n >"$doc/third-party.gz"
{
    cat <<-END
	Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
	Upstream-Name: Betz
	Comment: Licences of the packages that are linked in are in /usr/share/doc/betz/third-party.gz.

	Files: *
	Copyright: The Betz developers
	License: MIT or Apache-2.0

	License: MIT
	END
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    cat <<-END

	License: Apache-2.0
	 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
	END
} >"$doc/copyright"

# Linked libraries, with the oldest versions that have the symbols.
# The other machine's libraries are not installed as packages: what is asked of them says it.
asked() {
    "${tools}readelf" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
        case $library in
        libc.so.* | libm.so.* | ld-linux-*) echo "libc6 (>= $("${tools}readelf" -V "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1))" ;;
        libgcc_s.so.1) echo "libgcc-s1 (>= 4.2)" ;;
        *) echo "deb.sh: nobody said which package has $library" >&2; return 1 ;;
        esac
    done | sort -u | sed ':a; N; $!ba; s/\n/, /g'
}
mkdir "$work/debian"
printf 'Source: betz\n\nPackage: betz\nArchitecture: any\n' >"$work/debian/control"
if [ "$architecture" = "$here" ]; then
    depends=$(cd "$work" && dpkg-shlibdeps -O -e root/usr/bin/betz 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
else
    depends=$(asked "$root/usr/bin/betz")
fi
[ -n "$depends" ] || { echo "deb.sh: found no dependencies of betz" >&2; exit 1; }
cat >"$root/DEBIAN/control" <<END
Package: betz
Version: $version-1
Section: science
Priority: optional
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -ks --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Description: decoding runtime for brain-machine interfaces
 Trains, evaluates and streams decoders of movement from spikes, mines frequent
 episodes of spikes, computes correlation networks over sliding windows, sorts
 spikes from raw voltage and simulates populations. Reads .npz and NWB files and
 runs between UDP, LSL, BRAND, ZeroMQ and Open Ephys. Uses CUDA where there is.
END
(cd "$root" && find usr -type f -printf '%P\n' | sort | while read -r file; do md5sum "usr/$file"; done) >"$root/DEBIAN/md5sums"

mkdir -p "$out"
package=$out/betz_$version-1_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null

# Installed into a root of its own: what it depends on is the system's, and not there.
scratch=$work/scratch
mkdir -p "$scratch"/var/lib/dpkg/{info,updates,triggers}
touch "$scratch/var/lib/dpkg/status"
dpkg_there() {
    dpkg --root="$scratch" --log="$work/log" --force-depends "${force[@]}" --force-not-root --force-script-chrootless "$@" >>"$work/said" 2>&1 ||
        { cat "$work/said" >&2; return 1; }
}
files() { (cd "$scratch" && find usr -type f | sort); }
dpkg_there --install "$package"
there=$(files)
if [ "$architecture" = "$here" ] || [ ${#run[@]} -gt 0 ]; then
    "${run[@]}" "$scratch/usr/bin/betz" --version
    "${run[@]}" "$scratch/usr/bin/betz" simulate --neurons 8 --seconds 2 --out "$work/population.npz" 2>/dev/null >&2
    "${run[@]}" "$scratch/usr/bin/betz" info "$work/population.npz" >/dev/null
fi
if command -v man >/dev/null; then
    for page in "$scratch"/usr/share/man/man1/*.gz; do
        warned=$(MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null)
        [ -z "$warned" ] || { echo "deb.sh: $page: $warned" >&2; exit 1; }
    done
fi
bash -n "$scratch/usr/share/bash-completion/completions/betz"
(cd "$scratch" && md5sum --quiet -c "var/lib/dpkg/info/betz.md5sums")
dpkg_there --remove betz
dpkg_there --purge betz
left=$(cd "$scratch" && find . -path ./var -prune -o -type f -print)
[ -z "$left" ] || { echo "deb.sh: removed, it left $left" >&2; exit 1; }
if command -v lintian >/dev/null; then
    # Not of Debian's archive: no bug there asks for it. Whoever gives the package to others names himself.
    leave=initial-upload-closes-no-bugs
    [ -n "${DEBEMAIL:-}" ] || leave+=,bogus-mail-host,bogus-mail-host-in-debian-changelog
    lintian --allow-root --fail-on error,warning --suppress-tags "$leave" "$package"
else
    echo "lintian is not at hand"
fi
echo "$package: $(stat -c %s "$package") bytes, $(wc -l <<<"$there") files; depends on $depends"
