#!/usr/bin/env python3
"""Compares the speed of two commits: builds both, runs their programs in turns (A B A B …), prints ratios with intervals.

    scripts/perf BASE                    CPU: the operations of benches/programs/src/bin/operations.rs
    scripts/perf BASE --bundle           GPU: puts the benches of both commits and this script into gpu-bundle/
    gpu-bundle/perf --run gpu-bundle     there, on the machine with a GPU: runs them and prints the table
    scripts/perf --phantomcore FOLDER    a step beside one of PhantomCore's decoders, by counted instructions and by time

The working tree is the second side. Its programs are built against both libraries, so that both do the same work; if BASE
lacks what they need, it is measured by its own, and rows of one name are compared.
A ratio is BASE's time divided by the working tree's: above 1, the working tree is faster. Machines change speed within
seconds; two runs that follow each other share that, so each round gives one ratio, and the table has their median with
a 95 % interval.

PhantomCore is a C++ decoder (github.com/yelabb/PhantomCore, commit 52d7d2b); FOLDER holds its sources. Eigen is taken from
EIGEN, default /usr/include/eigen3. Without one of them, or without g++ or Valgrind, that comparison is skipped.
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
# The sources of the measurement programs, which are taken from the working tree for both sides if BASE can build them.
PROGRAMS = ("benches",)
LINE = re.compile(r"^(.*): .*?median ([\d.]+) (ns|µs|ms)\b")
PEER = ROOT / "benches/peers/phantomcore.cpp"
PEER_SOURCES = ("kalman_decoder", "dimensionality_reduction", "regularization", "simd_utils", "latency_tracker")
# Flags of PhantomCore's CMakeLists. Valgrind knows no AVX-512, so steps are counted with AVX2 on both sides.
PEER_FLAGS = ("-std=c++23", "-O3", "-ffast-math")
ROW = re.compile(r"^desc: Trigger: Client Request: (.*); ([\d.]+); (\d+)$", re.M)
TIMES = re.compile(r"^(.*?) +([\d.]+) spikes .*: (?:median|p50) ([\d.]+), (?:least|p99) ([\d.]+) us$", re.M)
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
    """Builds with `arguments` in `tree`; returns the programs by name, from cargo's messages, or None if it fails."""
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    ran = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    return dict(re.findall(r'"name":"(\w+)"[^\n]*?"executable":"([^"]+)"', ran.stdout)) if ran.returncode == 0 else None


def build_base(base, folder, target, arguments):
    """Builds BASE in `folder` with the programs of the working tree, or, if they need what BASE has not, with its own."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, base], cwd=ROOT, check=True)
    for path in PROGRAMS:
        shutil.rmtree(Path(folder) / path, ignore_errors=True)
        shutil.copytree(ROOT / path, Path(folder) / path)
    programs = build(folder, target, arguments)
    if programs is None:
        print("BASE has not all that the working tree's programs need: its own are taken, and rows of one name compared", file=sys.stderr)
        subprocess.run(["git", "checkout", "--quiet", base, "--", *PROGRAMS], cwd=folder, check=True)
        subprocess.run(["git", "clean", "-dfq", "--", *PROGRAMS], cwd=folder, check=True)
        programs = build(folder, target, arguments)
    return programs


def collect(arguments, base, into):
    """Builds the programs of both sides and copies them to into/base and into/head."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    with tempfile.TemporaryDirectory() as folder:
        tree = f"{folder}/tree"
        try:
            sides = {"base": build_base(base, tree, target / "perf", arguments), "head": build(ROOT, target, arguments)}
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=False)
        for side, programs in sides.items():
            if programs is None:
                sys.exit(f"{side} cannot be built by `cargo {' '.join(arguments)}`: see its errors above")
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


def missing_for_peer(sources, eigen):
    """A sentence on the first thing that the comparison with PhantomCore needs and has not, or None."""
    if not (sources / "src" / "kalman_decoder.cpp").is_file():
        return f"expected the sources of PhantomCore in {sources}, got no src/kalman_decoder.cpp there"
    if not (eigen / "Eigen").is_dir():
        return f"expected Eigen in {eigen} (or in the folder that EIGEN names), got none"
    for program in ("g++", "valgrind"):
        if shutil.which(program) is None:
            return f"expected {program} in PATH, got none"
    return None


def counted(text):
    """(name, spikes per bin) and (instructions, data lines, code lines) per step, from a dump of Callgrind."""
    name, spikes, steps = ROW.search(text).groups()
    columns = re.search(r"^events: (.*)$", text, re.M)[1].split()
    totals = dict(zip(columns, map(int, re.search(r"^totals: (.*)$", text, re.M)[1].split())))
    lines = totals.get("D1mr", 0) + totals.get("D1mw", 0)
    # The code of a step is read once, and stays in the cache.
    return (name, spikes), (totals["Ir"] / int(steps), lines / int(steps), totals.get("I1mr", 0))


def compare_phantomcore(sources, package, models):
    sources = sources.resolve()
    eigen = Path(os.environ.get("EIGEN", "/usr/include/eigen3"))
    missing = missing_for_peer(sources, eigen)
    if missing:
        print(f"PhantomCore: skipped: {missing}")
        return
    with tempfile.TemporaryDirectory() as folder:
        if package is None:
            package = Path(folder) / "package"
            subprocess.run([ROOT / "scripts/install.sh", "--prefix", package], stdout=sys.stderr, check=True)
        package = package.resolve()
        programs = {}
        for name, machine in (("count", "x86-64-v3"), ("time", "native")):
            programs[name] = Path(folder) / name
            command = ["g++", *PEER_FLAGS, f"-march={machine}", PEER]
            command += [sources / "src" / f"{source}.cpp" for source in PEER_SOURCES]
            command += [f"-I{sources}/include", "-isystem", eigen, f"-I{package}/include", f"-L{package}/lib", "-lbetz"]
            subprocess.run([*command, f"-Wl,-rpath,{package}/lib", "-o", programs[name]], check=True)
        counts, times = {}, {}
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--cache-sim=yes", "--collect-atstart=no"]
        valgrind += ["--I1=32768,8,64", "--D1=32768,8,64", f"--callgrind-out-file={folder}/out"]
        subprocess.run([*valgrind, programs["count"], "count", *models], check=True)
        for dump in Path(folder).glob("out.*"):
            text = dump.read_text()
            if ROW.search(text):
                counts.update([counted(text)])
        for way in ("0", "8", "64"):
            ran = subprocess.run([programs["time"], way, *models], stdout=subprocess.PIPE, text=True, check=True)
            for name, spikes, middle, edge in TIMES.findall(ran.stdout):
                times[name, spikes, way] = f"{middle} / {edge}"
    print(peer_table(counts, times))


def peer_table(counts, times):
    """A Markdown table by decoder and spikes per bin: counters by callgrind, then microseconds."""
    lines = [
        "| decoder | spikes per bin | instructions | data lines | code lines "
        "| back to back: median / least, µs | 8 MiB between: p50 / p99 | 64 MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, spikes in dict.fromkeys([*counts, *((name, spikes) for name, spikes, _ in times)]):
        numbers = [f"{n:.0f}" for n in counts.get((name, spikes), ())] or ["–"] * 3
        numbers += [times.get((name, spikes, way), "–") for way in ("0", "8", "64")]
        lines.append(f"| {name} | {spikes} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="commit to compare with")
    parser.add_argument("--bundle", action="store_true", help="prepare the comparison for a machine with a GPU")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run the comparison that --bundle prepared")
    parser.add_argument("--phantomcore", type=Path, metavar="FOLDER", help="compare a step with PhantomCore's decoders")
    parser.add_argument("--package", type=Path, help="installed release build for --phantomcore (default: built now)")
    parser.add_argument("--model", action="append", default=[], help="model of 142 channels, for --phantomcore; again for more")
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds (default 7)")
    options = parser.parse_args()
    if options.run:
        run_bundle(options.run, options.rounds)
    elif options.phantomcore:
        compare_phantomcore(options.phantomcore, options.package, options.model)
    elif options.base is None:
        parser.error("expected BASE, a commit to compare with")
    elif options.bundle:
        bundle(options.base)
    else:
        compare_cpu(options.base, options.rounds)


if __name__ == "__main__":
    main()
