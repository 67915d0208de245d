#!/usr/bin/env python3
"""Every package that the workspace is built from: a licence that deny.toml allows, and from the registry.

The checks of `cargo deny check licenses sources`, on the licences that packages declare, in a second and with nothing
to install; where cargo-deny is at hand, .ci/run calls that instead. Licence texts are not read.

    scripts/licences.py
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

root = Path(__file__).resolve().parent.parent
deny = tomllib.loads((root / "deny.toml").read_text())["licenses"]
exceptions = {e["crate"]: set(e["allow"]) for e in deny["exceptions"]}
metadata = json.loads(
    subprocess.check_output(
        ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"], cwd=root
    )
)


def holds(expression, allowed):
    """True when an SPDX expression can be met with `allowed`; older packages write `/` for OR."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while words and words[0] == "OR":
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        if words[:1] == ["WITH"]:
            words.pop(0)
            word += " WITH " + words.pop(0)
        return word in allowed or word.split(" WITH ")[0] in allowed

    return either() and not words


refused = []
for package in metadata["packages"]:
    name = f"{package['name']} {package['version']}"
    licence = package["license"]
    allowed = set(deny["allow"]) | exceptions.get(package["name"], set())
    if not licence or not holds(licence, allowed):
        refused.append(f"{name}: expected a licence of deny.toml, got {licence or 'none declared'}")
    source = package["source"]
    if source is not None and not source.startswith("registry+"):
        refused.append(f"{name}: expected a package of the registry, got {source}")
    if source is None and root not in Path(package["manifest_path"]).parents:
        refused.append(f"{name}: expected a package of this workspace, got {package['manifest_path']}")

print(f"{len(metadata['packages'])} packages, {len(refused)} refused")
sys.exit("\n".join(refused) if refused else 0)
