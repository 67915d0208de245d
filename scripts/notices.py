#!/usr/bin/env python3
"""Licences of every package that is linked into what is shipped, with their texts, on standard output.

    scripts/notices.py PACKAGE [cargo's arguments: --target, --features, --no-default-features]

MIT, BSD and Apache ask that their notices go along. Texts are those of the packages' own folders (LICENSE*, COPYING*,
NOTICE*), each once, below the packages that have it; a package that brings none is listed with what it declares.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(package, *more):
    tree = cargo("tree", "--locked", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}", *more)
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--all-features"))
    texts, without = collections.defaultdict(list), []
    for of in sorted(metadata["packages"], key=lambda p: (p["name"], p["version"])):
        if (of["name"], "v" + of["version"]) not in linked:
            continue
        folder = pathlib.Path(of["manifest_path"]).parent
        if of["source"] is None:
            # Files of others inside our own packages, such as a font.
            for file in sorted(folder.glob("src/**/LICENSE-*")):
                texts[file.read_text().strip()].append(file.name.removeprefix("LICENSE-"))
            continue
        called = f"{of['name']} {of['version']} ({of['license']})"
        files = sorted(
            file
            for file in folder.iterdir()
            if file.is_file() and file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))
        )
        for file in files:
            texts[file.read_text(errors="replace").strip()].append(called)
        if not files:
            without.append(f"{called}, by {', '.join(of['authors']) or 'its authors'}: {of['repository'] or of['name']}")
    print("Betz is made of these packages, too, under their own licences.\n")
    for text, packages in sorted(texts.items(), key=lambda item: item[1]):
        print("=" * 80, *packages, "-" * 80, text, "", sep="\n")
    if without:
        print("=" * 80, "Packages that bring no text of their licence:", *without, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    try:
        main(*sys.argv[1:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"notices.py: cargo {error.cmd[1]}: {error.stderr.strip()}")
    except BrokenPipeError:
        os._exit(1)
