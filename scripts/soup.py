#!/usr/bin/env python3
"""Prints the SOUP file of libbetz (IEC 62304: 5.3.3, 5.3.4, 7.1.3, 8.1.2), as Markdown:

    scripts/soup.py            prints it
    scripts/soup.py --check    checks that every requirement has tests and every test a requirement, and prints none

Requirements come from ffi/requirements.toml, platforms and support from docs/safety.md, anomalies from
docs/anomalies.md, versions from the sources and the toolchain.
"""

import glob
import os
import re
import subprocess
import sys
import tomllib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FUNCTION = {
    ".rs": re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)"),
    ".c": re.compile(r"^\s*RUN\((\w+)\)", re.M),
    ".cpp": re.compile(r"^\s*RUN\((\w+)\)", re.M),
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def functions(path, text):
    """Names of the tests in a file."""
    return FUNCTION[os.path.splitext(path)[1]].findall(text)


def faults(requirements, files):
    """Faults of the requirements, one sentence each. `files` has the text of every test by its path."""
    found, whole, parts = [], set(), {}
    identifiers = [r["id"] for r in requirements]
    for r in requirements:
        if not re.fullmatch(r"BETZ-\d{3}", r["id"]):
            found.append("%s: expected an identifier such as BETZ-001" % r["id"])
        if identifiers.count(r["id"]) > 1:
            found.append("%s: expected one requirement of this identifier, found several" % r["id"])
        if r.get("kind") not in ("functional", "performance"):
            found.append("%s: expected kind functional or performance, found %s" % (r["id"], r.get("kind")))
        if not r.get("tests"):
            found.append("%s: expected a test that shows it, found none" % r["id"])
        for test in r.get("tests", []):
            path, _, function = (part.strip() for part in test.partition(":"))
            if path not in files:
                found.append("%s: expected a test file %s in the scope, found none" % (r["id"], path))
            elif not function:
                whole.add(path)
            elif function not in functions(path, files[path]):
                found.append("%s: expected a test %s in %s, found none" % (r["id"], function, path))
            else:
                parts.setdefault(path, set()).add(function)
    for path in sorted(files):
        if path in whole:
            continue
        if path not in parts:
            found.append("%s: expected a requirement that names this test, found none" % path)
            continue
        for function in functions(path, files[path]):
            if function not in parts[path]:
                found.append("%s: expected a requirement that names its test %s, found none" % (path, function))
    return found


def scope(patterns):
    paths = {path for pattern in patterns for path in glob.glob(pattern, root_dir=ROOT)}
    files = {path: read(path) for path in paths}
    # The root of a test binary counts only if it has tests of its own.
    return {path: text for path, text in files.items() if os.path.basename(path) != "main.rs" or "#[test]" in text}


def section(text, title):
    """The body of a Markdown section."""
    return re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(title), text, re.M | re.S)[1].strip()


def tool(*command):
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return made.stdout.strip() if made.returncode == 0 else "unknown"


def document(given, safety, anomalies):
    workspace = tomllib.loads(read("Cargo.toml"))["workspace"]["package"]
    abi = re.search(r"BETZ_ABI_VERSION: u32 = (\d+)", read("ffi/src/version.rs"))[1]
    lines = [
        "# SOUP file of libbetz",
        "",
        "## Identification (8.1.2)",
        "| | |",
        "|---|---|",
        "| title | libbetz, the C library of Betz |",
        "| manufacturer | %s |" % ", ".join(workspace["authors"]),
        "| version | %s, ABI %s, commit %s |" % (workspace["version"], abi, tool("git", "rev-parse", "HEAD")),
        "| toolchain | %s |" % tool("rustc", "--version"),
        "| supported until | %s |" % given["support"]["until"],
        "| components | `scripts/sbom.sh`, `scripts/sbom.sh --runtime-only` |",
        "",
        "## Requirements (5.3.3)",
        "| identifier | kind | requirement | tests |",
        "|---|---|---|---|",
    ]
    for r in given["requirement"]:
        tests = ", ".join("`%s`" % test for test in r["tests"])
        lines.append("| %s | %s | %s | %s |" % (r["id"], r["kind"], r["text"], tests))
    lines += ["", "## Hardware and software that it needs (5.3.4)", section(safety, "Platforms")]
    lines += ["", "## Known anomalies (7.1.3)", anomalies.split("\n", 1)[1].strip()]
    lines += ["", "## Support", section(safety, "Support")]
    return "\n".join(lines)


def main(arguments):
    given = tomllib.loads(read("ffi/requirements.toml"))
    if arguments == ["--check"]:
        files = scope(given["scope"])
        found = faults(given["requirement"], files)
        for fault in found:
            print("soup.py: " + fault, file=sys.stderr)
        print("soup.py: %d requirements, %d test files" % (len(given["requirement"]), len(files)))
        document(given, read("docs/safety.md"), read("docs/anomalies.md"))
        return len(found) > 0
    if arguments:
        print("usage: soup.py [--check]", file=sys.stderr)
        return 2
    print(document(given, read("docs/safety.md"), read("docs/anomalies.md")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
