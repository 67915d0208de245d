#!/usr/bin/env python3
"""Counts cache lines and pages of code that a step touches, by Callgrind: without a clock, so they do not depend on load.

    scripts/code_pages.py PACKAGE MODEL...

PACKAGE is where scripts/install.sh has installed a release build. Prints one line per model: cache lines of code, pages of code,
and cache lines of the page table (eight pages each), of 20 steps of three spikes. Needs gcc and valgrind.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
#include <betz.h>
int main(int argc, char **argv) {
    betz_model *model = 0;
    betz_session *session = 0;
    betz_session_config config;
    const uint32_t spikes[3] = {0, 1, 2};
    float out[256];
    if (argc != 2 || betz_session_config_default(&config, sizeof config) || betz_model_load(argv[1], &model)
        || betz_session_open(model, &config, &session)) return 1;
    for (int i = 0; i < 20; i++)
        if (betz_session_step_spikes(session, spikes, 3, out, betz_model_outputs(model))) return 2;
    return 0;
}
"""


def touched(profile):
    """Addresses of the instructions in a profile, as pairs of object and address."""
    names, found, now, address, is_call = {}, set(), None, 0, False
    for line in profile.read_text().splitlines():
        if entry := re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line):
            kind, number, name = entry.groups()
            if name:
                names[number] = name
            if kind == "ob":
                now = names.get(number)
        elif line.startswith("calls="):
            is_call = True
        elif entry := re.match(r"(0x[0-9a-f]+|\+\d+|-\d+|\*)\s", line):
            position = entry.group(1)
            if position.startswith("0x"):
                address = int(position, 16)
            elif position != "*":
                address += int(position)
            # The line after a call has the cost of the function called.
            if not is_call:
                found.add((now, address))
            is_call = False
    return found


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    package, models = Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "step.c").write_text(PROGRAM)
        program = work / "step"
        subprocess.run(["gcc", "-std=gnu11", "-O1", work / "step.c", "-o", program, f"-I{package}/include",
            f"-L{package}/lib", "-lbetz", f"-Wl,-rpath,{package.resolve()}/lib"], check=True)
        for model in models:
            profile = work / "profile"
            subprocess.run(["valgrind", "--quiet", "--tool=callgrind", "--toggle-collect=betz_session_step_spikes",
                "--dump-instr=yes", f"--callgrind-out-file={profile}", program, model],
                check=True, env={**os.environ, "LD_BIND_NOW": "1"})
            lines, pages, tables = ({(o, a >> shift) for o, a in touched(profile)} for shift in (6, 12, 15))
            print(f"{Path(model).name}: {len(lines)} lines of code, {len(pages)} pages, {len(tables)} lines of page table")


main()
