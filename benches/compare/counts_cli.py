"""Counts a thousand times as large, and channels numbered far apart, through the command line: time and
peak memory beside those of the plain recording.

Run: python benches/compare/counts_cli.py target/release/betz RECORDING.npz [ROUNDS]

RECORDING has `counts` with `step_seconds` (reach95 of the shared data). Each command runs ROUNDS times (5),
variants in turn, in a process of its own; shown are the least CPU and wall seconds and the largest resident
memory, and their ratio to the first variant. Needs NumPy and GNU time.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np


def measure(command, folder):
    """CPU seconds, wall seconds and peak memory in MB of a command."""
    # Through time(1): what is started from here has this process' own memory as its peak.
    timed = ["/usr/bin/time", "-f", "%U %S %e %M", "-o", "usage"]
    subprocess.run(timed + command, cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "usage")) as usage:
        user, system, wall, peak = map(float, usage.read().split())
    return user + system, wall, peak / 1024


def compare(title, variants, rounds, folder):
    best = {}
    for _ in range(rounds):
        for name, command in variants:
            cpu, wall, memory = measure(command, folder)
            old = best.get(name, (cpu, wall, memory))
            best[name] = (min(old[0], cpu), min(old[1], wall), max(old[2], memory))
    first = best[variants[0][0]]
    print(f"\n{title}\n| | CPU s | wall s | peak MB | CPU | wall | memory |\n|---|---|---|---|---|---|---|")
    for name, _ in variants:
        ratios = [f"{a / b:.2f}" for a, b in zip(best[name], first)]
        cpu, wall, memory = best[name]
        print(f"| {name} | {cpu:.3f} | {wall:.3f} | {memory:.1f} | " + " | ".join(ratios) + " |")


def main():
    betz, path = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    arrays = dict(np.load(path))
    counts = arrays["counts"]
    with tempfile.TemporaryDirectory() as folder:
        def save(name, **changed):
            np.savez_compressed(os.path.join(folder, name), **{**arrays, **changed})

        save("plain.npz", counts=counts.astype("u2"))
        save("thousand.npz", counts=(counts.astype("u4") * 1000).astype("u2"))
        signal = {k: v for k, v in arrays.items() if k not in ("counts", "step_seconds")}
        np.savez_compressed(
            os.path.join(folder, "signal.npz"),
            signal=counts.astype("f4") * 0.37,
            sample_seconds=arrays["step_seconds"],
            **signal,
        )
        names = ["plain", "thousand", "signal"]
        for name in names:
            subprocess.run([betz, "train", f"{name}.npz", "--out", f"{name}.betz"], cwd=folder, check=True,
                           capture_output=True)

        def each(command):
            return [(n, [betz] + command.replace("NAME", n).split() + ["--device", "cpu"]) for n in names]

        compare("evaluate", each("evaluate NAME.betz NAME.npz"), rounds, folder)
        compare("train", each("train NAME.npz --out NAME.out.betz --force"), rounds, folder)
        compare("stream", each("stream NAME.betz NAME.npz"), rounds, folder)

        # Ten channels of spike times, numbered from 0 on, up to 9,000 and up to 65,535.
        rng = np.random.default_rng(1)
        spikes = 200_000  # of 600 s
        ticks = np.sort(rng.integers(0, 600_000, spikes)).astype("i8")
        which = rng.integers(0, 10, spikes)
        times = np.arange(0, 600, 0.02)
        behavior = np.stack([np.sin(times), np.cos(0.7 * times)], 1).astype("f4")
        names = ["10 channels", "up to 9000", "up to 65535"]
        for name, most in zip(names, [9, 9000, 65535]):
            numbers = np.linspace(0, most, 10).astype("u2")
            np.savez_compressed(
                os.path.join(folder, name.replace(" ", "-")),
                spike_ticks=ticks, spike_channels=numbers[which], tick_seconds=1e-3,
                behavior=behavior, behavior_times=times,
            )

        def sparse(command):
            return [(n, [betz] + command.replace("NAME", n.replace(" ", "-")).split() + ["--device", "cpu"])
                    for n in names]

        train = sparse("train NAME.npz --out NAME.betz --force")
        compare("train, sparse numbers", train, rounds, folder)
        compare("evaluate, sparse numbers", sparse("evaluate NAME.betz NAME.npz"), rounds, folder)


main()
