#!/usr/bin/env python3
"""Checks the links between the repository's Markdown pages, and prepares the pages for the site.

    scripts/links.py                 fails if a link's file or heading does not exist
    scripts/links.py --copy FOLDER   copies every page of docs/SUMMARY.md, and every file it links to, into FOLDER

The copy keeps the repository's paths, so that links work in the site as they do in the repository.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")


def without_code(text):
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page):
    """Anchors of a page's headings, as GitHub and mdBook make them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.*?)#*$", text, flags=re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        again = seen.get(anchor, 0)
        seen[anchor] = again + 1
        found.add(anchor if again == 0 else f"{anchor}-{again}")
    return found


def links(page):
    """Links of a page to files of the repository: (as written, file, anchor)."""
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        yield target, (page.parent / path).resolve() if path else page, anchor


def listed(*patterns):
    """Files of the repository, tracked or not yet tracked."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name and (ROOT / name).exists()})


def pages():
    return [ROOT / path for path in listed("*.md")]


PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:rs|py|pyi|sh|c|cpp|h|hpp|cu|cuh|md|toml|mjs|ts|json|yaml))`")


def missing_paths(page, files):
    """Paths in code spans that no file of the repository ends with; NAME.cu and the like are placeholders."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for path in PATH.findall(text):
        clean = path.removeprefix("./")
        placeholder = re.search(r"(?:^|/)[A-Z]+[./]", clean)
        if not placeholder and not any(file == clean or file.endswith(f"/{clean}") for file in files):
            yield path


def broken():
    out = []
    files = set(listed())
    # A changelog also names files that are gone.
    for page in pages():
        if page.name != "CHANGELOG.md":
            for path in missing_paths(page, files):
                out.append(f"{page.relative_to(ROOT)}: `{path}`: no such file")
    for page in pages():
        for target, file, anchor in links(page):
            if not file.exists():
                out.append(f"{page.relative_to(ROOT)}: {target}: no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                out.append(f"{page.relative_to(ROOT)}: {target}: no such heading")
    # A page that the contents do not name is not in the site, and a link to it would lead nowhere.
    named = {file for _, file, _ in links(ROOT / "docs/SUMMARY.md")}
    for page in sorted(named):
        for target, file, _ in links(page):
            if file.is_dir():
                out.append(f"{page.relative_to(ROOT)}: {target}: link to a file, not to a folder")
            elif file.suffix == ".md" and file not in named:
                out.append(f"docs/SUMMARY.md: add {file.relative_to(ROOT)}, to which {page.relative_to(ROOT)} links")
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name != "SUMMARY.md" and page not in named:
            out.append(f"docs/SUMMARY.md: add {page.name}")
    return out


def copy(folder):
    summary = ROOT / "docs/SUMMARY.md"
    named = [file for _, file, _ in links(summary)]
    wanted = set(named)
    for page in named:
        wanted.update(file for _, file, _ in links(page) if file.is_file())
    for file in wanted:
        to = folder / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            # mdBook makes index.html of README.md, and does not change the links to it.
            to.write_text(re.sub(r"(\]\((?:[^()\s]*/)?)README\.md", r"\1index.md", file.read_text()))
        else:
            shutil.copyfile(file, to)
    # mdBook looks for the contents at the top of the book, where its paths begin.
    text = LINK.sub(
        lambda link: link.group(0).replace(
            link.group(1), str((summary.parent / link.group(1)).resolve().relative_to(ROOT))
        ),
        summary.read_text(),
    )
    (folder / "SUMMARY.md").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if wrong := broken():
        print("\n".join(wrong))
        return 1
    if arguments.copy:
        copy(arguments.copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
