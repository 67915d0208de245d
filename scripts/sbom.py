#!/usr/bin/env python3
"""Prints a CycloneDX 1.5 document of libbetz, one artefact per call:

    scripts/sbom.py [--no-cuda | --runtime-only]
    scripts/sbom.py --check        checks the documents of all artefacts, and prints none

The document has every linked crate with version, supplier, licence and checksum, Rust's standard library, the
compiler (not linked: scope "excluded"), and the graph of dependencies. It is the same for the same sources and
toolchain.
"""

import json
import os
import re
import subprocess
import sys
import uuid

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ARTEFACTS = {
    "": ("libbetz", []),
    "--no-cuda": ("libbetz without CUDA", ["--no-default-features", "--features", "train,mine,network,sort"]),
    "--runtime-only": ("libbetz, runtime only", ["--no-default-features"]),
}


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def read_edges(tree):
    """(root, {package: set of packages that it needs}) of `cargo tree --prefix depth`.

    A package whose needs were printed before is marked with (*): they stand there.
    """
    path, edges, root = [], {}, None
    for line in tree.splitlines():
        depth, name, version = re.match(r"(\d+)(\S+) v(\S+)", line).groups()
        package = (name, version)
        edges.setdefault(package, set())
        del path[int(depth):]
        if path:
            edges[path[-1]].add(package)
        else:
            root = package
        path.append(package)
    return root, edges


def read_checksums(lock):
    blocks = (dict(re.findall(r'^(name|version|checksum) = "(.*)"$', block, re.M)) for block in lock.split("[[package]]"))
    return {(b["name"], b["version"]): b["checksum"] for b in blocks if "checksum" in b}


def reference(package):
    return "pkg:cargo/%s@%s" % package


def supplier(package, metadata):
    """The authors without their addresses, or the owner of the repository, or the package's developers."""
    if metadata["authors"]:
        return ", ".join(re.sub(r" *<.*?>", "", author) for author in metadata["authors"])
    owner = re.match(r"https://[^/]+/([^/]+)", metadata["repository"] or "")
    return owner[1] if owner else "The developers of %s" % package[0]


def component(package, metadata, checksum):
    made = {
        "type": "library",
        "bom-ref": reference(package),
        "supplier": {"name": supplier(package, metadata)},
        "name": package[0],
        "version": package[1],
        "purl": reference(package),
    }
    if metadata["authors"]:
        made["author"] = ", ".join(metadata["authors"])
    if metadata["license"]:
        made["licenses"] = [{"expression": metadata["license"].replace("/", " OR ")}]
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if metadata["repository"]:
        made["externalReferences"] = [{"type": "vcs", "url": metadata["repository"]}]
    return made


def toolchain(version, target):
    """Components of the standard library and of the compiler."""
    number = re.match(r"rustc (\S+)", version)[1]
    shared = {
        "supplier": {"name": "The Rust Project", "url": ["https://www.rust-lang.org"]},
        "version": number,
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "externalReferences": [{"type": "vcs", "url": "https://github.com/rust-lang/rust"}],
        "properties": [{"name": "rustc", "value": version.strip()}, {"name": "target", "value": target}],
    }
    std = {"type": "library", "bom-ref": "pkg:generic/rust-std@" + number, "name": "rust-std", **shared}
    rustc = {"type": "application", "bom-ref": "pkg:generic/rustc@" + number, "name": "rustc", "scope": "excluded", **shared}
    return std, rustc


def document(artefact, tree, lock, metadata, rustc):
    """The document as a dictionary, of the tools' texts."""
    name, _ = ARTEFACTS[artefact]
    root, edges = read_edges(tree)
    checksums = read_checksums(lock)
    packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
    version, target = rustc.split("\n")[0], re.search(r"^host: (.*)$", rustc, re.M)[1]
    std, compiler = toolchain(version, target)
    linked = sorted(package for package in edges if package != root)
    components = [component(p, packages[p], checksums.get(p)) for p in linked]
    dependencies = [
        {"ref": reference(p), "dependsOn": sorted(map(reference, edges[p])) + [std["bom-ref"]]} for p in sorted(edges)
    ]
    body = {
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": reference(root),
                "supplier": {"name": "The Betz developers"},
                "name": name,
                "version": root[1],
                "licenses": [{"expression": packages[root]["license"]}],
            },
        },
        "components": components + [std, compiler],
        "dependencies": dependencies + [{"ref": std["bom-ref"]}, {"ref": compiler["bom-ref"]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": serial.urn, "version": 1, **body}


def faults(bom):
    """Faults of a document, one sentence each."""
    found = []
    main = bom["metadata"]["component"]
    components = [main, *bom["components"]]
    references = [c.get("bom-ref") for c in components]
    for c in components:
        for field in ("type", "bom-ref", "name", "version", "supplier", "licenses"):
            if not c.get(field):
                found.append("%s: expected a field %s, found none" % (c.get("name"), field))
    for r in sorted({r for r in references if r and references.count(r) > 1}):
        found.append("%s: expected one component of this reference, found several" % r)
    needs = {d["ref"]: d.get("dependsOn", []) for d in bom["dependencies"]}
    for ref in sorted(set(needs) | {r for all_of in needs.values() for r in all_of}):
        if ref not in references:
            found.append("%s: expected a component, found a dependency alone" % ref)
    reached, waiting = set(), [main["bom-ref"]]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting.extend(needs.get(ref, []))
    for c in bom["components"]:
        if c.get("scope") != "excluded" and c.get("bom-ref") not in reached:
            found.append("%s: expected a path from %s, found none" % (c.get("bom-ref"), main["name"]))
    return found


def make(artefact):
    tree = output(
        "cargo", "tree", "--locked", "--package", "betz-library", *ARTEFACTS[artefact][1],
        "--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}",
    )  # fmt: skip
    with open(os.path.join(ROOT, "Cargo.lock")) as lock:
        return document(
            artefact,
            tree,
            lock.read(),
            json.loads(output("cargo", "metadata", "--locked", "--format-version", "1")),
            output("rustc", "-vV"),
        )


def main(arguments):
    if arguments == ["--check"]:
        wrong = 0
        for artefact, (name, _) in ARTEFACTS.items():
            bom = make(artefact)
            found = faults(bom)
            wrong += len(found)
            for fault in found:
                print("sbom.py: %s: %s" % (name, fault), file=sys.stderr)
            print("sbom.py: %s: %d components" % (name, len(bom["components"])))
        return wrong > 0
    artefact = arguments[0] if arguments else ""
    if len(arguments) > 1 or artefact not in ARTEFACTS:
        print("usage: sbom.py [--no-cuda | --runtime-only | --check]", file=sys.stderr)
        return 2
    json.dump(make(artefact), sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
