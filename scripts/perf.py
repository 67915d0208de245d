#!/usr/bin/env python3
"""Compares the speed of two commits: builds both, runs their programs in turns (A B A B …), prints ratios with intervals.

    scripts/perf BASE                    CPU: the operations of benches/programs/src/bin/operations.rs
    scripts/perf BASE --bundle           GPU: puts the benches of both commits and this script into gpu-bundle/
    gpu-bundle/perf --run gpu-bundle     there, on the machine with a GPU: runs them and prints the table

The working tree is the second side; its programs are built against both libraries, so that both do the same work.
A ratio is BASE's time divided by the working tree's: above 1, the working tree is faster. Machines change speed within
seconds; two runs that follow each other share that, so each round gives one ratio, and the table has their median with
a 95 % interval.
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("base", "head")
# Programs of a bundle and the parts of them that the record's headlines come from.
GPU_PROGRAMS = (("gpu_train", "train", "sizes"), ("gpu_gram", "alone", "bank"))
# The sources of the measurement programs, which are taken from the working tree for both sides.
PROGRAMS = ("benches",)
LINE = re.compile(r"^(.*): .*?median ([\d.]+) (ns|µs|ms)\b")
NANOSECONDS = {"ns": 1.0, "µs": 1e3, "ms": 1e6}


def medians(output):
    """Nanoseconds by name, from lines such as "solve: median 3.2 ms, least 3.1 ms"."""
    found = {}
    for line in output.splitlines():
        match = LINE.match(line)
        if match:
            found[match[1]] = float(match[2]) * NANOSECONDS[match[3]]
    return found


def interval(values):
    """Median, and the narrowest order statistics that hold it with at least 95 % (all values, if they are few)."""
    ordered, n = sorted(values), len(values)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    outside, cut = 0.0, 0
    while cut < n // 2:
        outside += 2 * math.comb(n, cut) / 2**n
        if outside > 0.05:
            break
        cut += 1
    cut = max(cut - 1, 0)
    return middle, ordered[cut], ordered[n - 1 - cut]


def table(rounds):
    """A Markdown table of `rounds`: pairs of (base, head), nanoseconds by name."""
    names = [name for name in rounds[0][0] if all(name in side for pair in rounds for side in pair)]
    lines = ["| operation | base | head | ratio | 95 % interval |", "|---|---|---|---|---|"]
    for name in names:
        base, _, _ = interval([pair[0][name] for pair in rounds])
        head, _, _ = interval([pair[1][name] for pair in rounds])
        ratio, low, high = interval([pair[0][name] / pair[1][name] for pair in rounds])
        mark = " faster" if low > 1.02 else " slower" if high < 0.98 else ""
        lines.append(f"| {name} | {duration(base)} | {duration(head)} | {ratio:.2f}{mark} | {low:.2f}–{high:.2f} |")
    return "\n".join(lines)


def duration(nanoseconds):
    for unit in ("ms", "µs"):
        if nanoseconds >= NANOSECONDS[unit]:
            return f"{nanoseconds / NANOSECONDS[unit]:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def in_turns(commands, rounds):
    """Runs the commands of each side, (base, head), in turns; the side that goes first changes from round to round."""
    pairs = []
    for round_ in range(rounds):
        found = {}
        for side in SIDES if round_ % 2 == 0 else SIDES[::-1]:
            found[side] = {}
            for command in commands[side]:
                ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[side].update(medians(ran.stdout))
        pairs.append((found["base"], found["head"]))
        print(f"round {round_ + 1} of {rounds}", file=sys.stderr)
    return pairs


def build(tree, target, arguments):
    """Builds with `arguments` in `tree`; returns the folder of the programs, by cargo's messages."""
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    ran = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"{tree}: `{' '.join(command[:-1])}` failed: the working tree's programs need what BASE has not")
    return dict(re.findall(r'"name":"(\w+)"[^\n]*?"executable":"([^"]+)"', ran.stdout))


def base_tree(base, folder):
    """A work tree of BASE in `folder`, with the programs of the working tree."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, base], cwd=ROOT, check=True)
    for path in PROGRAMS:
        shutil.rmtree(Path(folder) / path, ignore_errors=True)
        shutil.copytree(ROOT / path, Path(folder) / path)


def collect(arguments, base, into):
    """Builds the programs of both sides and copies them to into/base and into/head."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    with tempfile.TemporaryDirectory() as folder:
        tree = f"{folder}/tree"
        try:
            base_tree(base, tree)
            sides = {"base": build(tree, target / "perf", arguments), "head": build(ROOT, target, arguments)}
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=False)
        for side, programs in sides.items():
            (into / side).mkdir(parents=True, exist_ok=True)
            for name, path in programs.items():
                subprocess.run(["strip", "-o", into / side / name, path], check=True)


def compare_cpu(base, rounds):
    arguments = ["build", "--release", "--workspace", "--bin", "operations"]
    with tempfile.TemporaryDirectory() as folder:
        collect(arguments, base, Path(folder))
        commands = {}
        for side in SIDES:
            program = f"{folder}/{side}/operations"
            # Each side reads files that it wrote.
            subprocess.run([program, "prepare", f"{folder}/{side}"], check=True)
            commands[side] = [[program, "time", f"{folder}/{side}"]]
        print(table(in_turns(commands, rounds)))


def bundle(base):
    out = ROOT / os.environ.get("GPU_BUNDLE", "gpu-bundle")
    arguments = ["bench", "-p", "betz", "--no-run"]
    for name, *_ in GPU_PROGRAMS:
        arguments += ["--bench", name]
    collect(arguments, base, out)
    shutil.copy(Path(__file__).resolve(), out / "perf")
    print(f"copy {out.name}/ to a machine with a GPU and run: {out.name}/perf --run {out.name}")


def run_bundle(folder, rounds):
    folder = folder.resolve()
    commands = {side: [[f"{folder}/{side}/{name}", *parts] for name, *parts in GPU_PROGRAMS] for side in SIDES}
    print(table(in_turns(commands, rounds)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="commit to compare with")
    parser.add_argument("--bundle", action="store_true", help="prepare the comparison for a machine with a GPU")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run the comparison that --bundle prepared")
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds (default 7)")
    options = parser.parse_args()
    if options.run:
        run_bundle(options.run, options.rounds)
    elif options.base is None:
        parser.error("expected BASE, a commit to compare with")
    elif options.bundle:
        bundle(options.base)
    else:
        compare_cpu(options.base, options.rounds)


if __name__ == "__main__":
    main()
