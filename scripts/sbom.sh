#!/usr/bin/env bash
# Prints a CycloneDX 1.5 document of libbetz: every linked crate, with version, licence and checksum, from Cargo.lock and
# cargo's metadata.
#
#   scripts/sbom.sh [--no-cuda | --runtime-only]
set -euo pipefail
cd "$(dirname "$0")/.."
features=()
case ${1:-} in
"") ;;
--no-cuda) features=(--no-default-features --features train,mine,network) ;;
--runtime-only) features=(--no-default-features) ;;
*) echo "usage: sbom.sh [--no-cuda | --runtime-only]" >&2; exit 2 ;;
esac
# Normal dependencies alone: what builds and tests the library is not in it.
tree=$(cargo tree --locked --package betz-library "${features[@]}" --edges normal --prefix none \
    --format '{p}' | sed 's/ (\*)$//; s/ (proc-macro)$//; s/ (\/.*)$//' | sort -u)
cargo metadata --locked --format-version 1 | TREE="$tree" python3 -c '
import json, os, re, sys
metadata = json.load(sys.stdin)
checksums = {}
for block in open("Cargo.lock").read().split("[[package]]"):
    found = dict(re.findall(r"^(name|version|checksum) = \"(.*)\"$", block, re.M))
    if "checksum" in found:
        checksums[found["name"], found["version"]] = found["checksum"]
packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
components = []
for line in os.environ["TREE"].splitlines():
    name, version = line.split()[:2]
    package = packages[name, version.lstrip("v")]
    component = {
        "type": "library",
        "name": name,
        "version": package["version"],
        "purl": "pkg:cargo/%s@%s" % (name, package["version"]),
    }
    if package["license"]:
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((name, package["version"]))
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    components.append(component)
main = packages["betz-library", next(v for n, v in packages if n == "betz-library")]
json.dump({
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {"type": "library", "name": "libbetz", "version": main["version"]}},
    "components": components,
}, sys.stdout, indent=1)
print()'
