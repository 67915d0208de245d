#!/usr/bin/env python3
"""Packs a folder with a package and its .dist-info as a wheel, with another tag.

    scripts/pack_wheel.py FOLDER TAG OUT

Writes the tag into WHEEL, and RECORD, which lists every file with its hash. Prints the wheel's path and size.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile


def main(folder, tag, out):
    infos = sorted(folder.glob("*.dist-info"))
    if len(infos) != 1:
        sys.exit(f"{folder}: expected one .dist-info, got {len(infos)}")
    info = infos[0]
    about = info / "WHEEL"
    text, tags = re.subn(r"^Tag: .*$", f"Tag: {tag}", about.read_text(), flags=re.M)
    if tags != 1:
        sys.exit(f"{about}: expected one tag, got {tags}")
    about.write_text(text)
    record = info / "RECORD"
    record.unlink(missing_ok=True)
    lines = []
    wheel = out / f"{info.name.removesuffix('.dist-info')}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        # Metadata come last, as in other wheels.
        files = sorted(f for f in folder.rglob("*") if f.is_file())
        for file in sorted(files, key=lambda f: info in f.parents):
            name, data = file.relative_to(folder).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
            archive.writestr(name, data)
        archive.writestr(record.relative_to(folder).as_posix(), "\n".join([*lines, f"{info.name}/RECORD,,", ""]))
    print(f"{wheel}: {wheel.stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    main(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))
