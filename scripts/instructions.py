#!/usr/bin/env python3
"""Counts the instructions of hot operations under Valgrind and compares them with benches/record/instructions.md.

    scripts/instructions.py                      fails if a count has grown by more than 2 %
    scripts/instructions.py --update             writes today's counts to the record
    scripts/instructions.py --update --why TEXT  the same if counts have grown; TEXT explains the growth in the record

The cases are in benches/programs/src/bin/operations.rs. A count hardly depends on the machine, because Valgrind shows
every program the same processor (AVX2, without AVX-512) and everything runs in one thread. It depends on the compiler
and on Valgrind: with other versions than the record's, counts are printed and not compared.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "benches/record/instructions.md"
# Growth that no line of the record need explain.
TOLERANCE = 0.02
TABLE = "| case | instructions |\n|---|---|\n"
REASONS = "| case | from | to | date | reason |\n|---|---|---|---|---|\n"


class Comparison(NamedTuple):
    """Names of cases, or (name, recorded, counted)."""

    grown: list
    shrunk: list
    unrecorded: list
    vanished: list

    def passes(self):
        return not (self.grown or self.unrecorded or self.vanished)


def compare(recorded, counted):
    pairs = [(name, recorded[name], counted[name]) for name in counted if name in recorded]
    return Comparison(
        grown=[pair for pair in pairs if pair[2] > pair[1] * (1 + TOLERANCE)],
        shrunk=[pair for pair in pairs if pair[2] < pair[1] * (1 - TOLERANCE)],
        unrecorded=[name for name in counted if name not in recorded],
        vanished=[name for name in recorded if name not in counted],
    )


def counts_of_record(text):
    """The table's counts by case."""
    _, _, rows = text.partition(TABLE)
    counts = {}
    for line in rows.splitlines():
        row = re.fullmatch(r"\| (.+?) \| ([\d,]+) \|", line)
        if not row:
            break
        counts[row[1]] = int(row[2].replace(",", ""))
    return counts


def tools_of_record(text):
    """The line that names the tools, such as "rustc 1.95.0, valgrind-3.19.0"."""
    line = re.search(r"^Tools: (.*)\.$", text, re.MULTILINE)
    return line[1] if line else None


def with_counts(text, counted, grown, why, today):
    """The record with these counts, and a line for each case of `grown`."""
    head, _, rest = text.partition(TABLE)
    rows = rest.splitlines(keepends=True)
    while rows and rows[0].startswith("|"):
        del rows[0]
    table = "".join(f"| {name} | {count:,} |\n" for name, count in counted.items())
    text = head + TABLE + table + "".join(rows)
    head, _, rest = text.partition(REASONS)
    new = "".join(f"| {name} | {old:,} | {new:,} | {today} | {why} |\n" for name, old, new in grown)
    return head + REASONS + new + rest


def total_of_dump(text):
    """Instructions of one of Callgrind's files."""
    total = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if not total:
        raise ValueError("expected a line `totals: N` in Callgrind's file, found none")
    return int(total[1])


def counts_of_dumps(cases, totals):
    """Instructions per operation: `cases` are the program's lines, `totals` those of the dumps in the same order."""
    if len(totals) < len(cases):
        raise ValueError(f"expected a dump for each of {len(cases)} cases, got {len(totals)}")
    counts = {}
    for line, total in zip(cases, totals):
        name, operations = line.split("\t")
        counts[name] = round(total / int(operations))
    return counts


def lacking():
    """Reason why nothing can be counted here."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        return "needs Linux on x86-64"
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        return "needs a processor with AVX2"
    if not shutil.which("valgrind"):
        return "needs Valgrind"
    return None


def tools():
    def version(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    rustc = " ".join(version("rustc", "--version").split()[:2])
    return f"{rustc}, {version('valgrind', '--version').strip()}"


def build():
    # As `scripts/install.sh --with-operations` does: CI builds nothing twice.
    command = ["cargo", "build", "--release", "--quiet", "--package", "betz-library", "--package", "betz-programs"]
    command += ["--lib", "--bin", "operations", "--no-default-features", "--features", "betz-library/default"]
    subprocess.run(command, check=True, cwd=ROOT)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/operations"


def count(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "prepare", folder], check=True)
        valgrind = ["valgrind", "--tool=callgrind", "--quiet", "--collect-atstart=no"]
        # The program says when to collect and when to write a file.
        valgrind += [f"--callgrind-out-file={folder}/counts"]
        # Addresses that are the same in every run, where the system permits it.
        fixed = ["setarch", "-R"] if shutil.which("setarch") else []
        if fixed and subprocess.run([*fixed, "true"], capture_output=True).returncode:
            fixed = []
        run = [*fixed, *valgrind, program, "count", folder]
        # No variable of the caller's environment moves the stack.
        environment = {"PATH": os.environ["PATH"]}
        ran = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        dumps = (Path(f"{folder}/counts.{part}") for part in range(1, 1000))
        totals = [total_of_dump(dump.read_text()) for dump in dumps if dump.exists()]
        return counts_of_dumps(ran.stdout.splitlines(), totals)


def report(result, counted):
    width = max(len(name) for name in counted)
    for name, count_ in counted.items():
        print(f"{name:<{width}} {count_:>12,}")
    for name, old, new in result.shrunk:
        print(f"{name}: {new:,} instructions, {100 * (1 - new / old):.1f} % fewer than recorded; `--update` records it")
    for name, old, new in result.grown:
        print(
            f"{name}: expected at most {old:,} instructions and {TOLERANCE:.0%}, got {new:,} "
            f"({100 * (new / old - 1):+.1f} %); make it cheaper, or record why: scripts/instructions.py --update --why TEXT"
        )
    for name in result.unrecorded:
        print(f"{name}: expected a row in {RECORD.relative_to(ROOT)}, found none; add it: scripts/instructions.py --update")
    for name in result.vanished:
        print(f"{name}: recorded, but no case any more; remove it: scripts/instructions.py --update")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the counts to the record")
    parser.add_argument("--why", help="reason for growth, for the record")
    options = parser.parse_args()
    reason = lacking()
    if reason:
        print(f"skipped: {reason}")
        return 0
    text, here = RECORD.read_text(), tools()
    counted = count(build())
    recorded = counts_of_record(text)
    result = compare(recorded, counted)
    same_tools = here == tools_of_record(text)
    if options.update:
        if result.grown and same_tools and not options.why:
            report(result, counted)
            return 1
        why = options.why or f"other tools: {here}"
        today = datetime.date.today().isoformat()
        text = with_counts(text, counted, result.grown, why, today)
        text = re.sub(r"^Tools: .*$", f"Tools: {here}.", text, flags=re.MULTILINE)
        RECORD.write_text(text)
        return 0
    if not same_tools:
        report(compare(counted, counted), counted)
        print(f"not compared: the record is of {tools_of_record(text)}, these counts of {here}")
        return 0
    report(result, counted)
    return 0 if result.passes() else 1


if __name__ == "__main__":
    sys.exit(main())
