#!/usr/bin/env python3
"""Times sorting against the recording's own length: wall-clock and CPU seconds per second of voltage.

    cargo build --release -p betz-cli
    taskset -c 0-3 python benches/compare/sorting_time.py target/release/betz [--channels 384] [--seconds 20]

The voltage is made here: noise of 8 µV at 30 kHz on contacts in two columns, 20 µm apart, and one unit for each three
contacts at 5 to 20 Hz, whose trough of 60 to 160 µV decays with the distance. Needs NumPy.
"""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time

import numpy as np

RATE, GAIN, REACH_UM = 30_000, 0.195, 25.0


def make(folder, channels, seconds, random):
    """Writes traces.dat and probe.json; returns the number of spikes."""
    at = np.column_stack([np.arange(channels) % 2 * 20.0, np.arange(channels) // 2 * 20.0])
    time_ms = np.arange(-20, 40) / 30.0
    shape = -np.exp(-((time_ms / 0.15) ** 2)) + 0.4 * np.exp(-(((time_ms - 0.45) / 0.25) ** 2))
    steps = int(seconds * RATE)
    voltage = np.empty((steps, channels), dtype="<i2")
    for first in range(0, steps, RATE):
        part = random.standard_normal((min(RATE, steps - first), channels), dtype=np.float32) * np.float32(8.0 / GAIN)
        voltage[first : first + len(part)] = np.round(part)
    spikes = 0
    for _ in range(channels // 3):
        place = at[random.integers(channels)] + random.uniform(-10, 10, 2)
        heights = random.uniform(60, 160) * np.exp(-np.linalg.norm(at - place, axis=1) / REACH_UM)
        seen = np.flatnonzero(heights > 2.0)
        template = np.round(np.outer(shape, heights[seen]) / GAIN).astype("<i2")
        gaps = 0.003 + random.exponential(1.0 / random.uniform(5, 20), int(seconds * 30))
        moments = (np.cumsum(gaps) * RATE).astype(int)
        for moment in moments[(moments > 30) & (moments < steps - 50)]:
            voltage[moment - 20 : moment + 40, seen] += template
            spikes += 1
    voltage.tofile(f"{folder}/traces.dat")
    probe = {
        "ndim": 2,
        "si_units": "um",
        "contact_positions": at.tolist(),
        "contact_shapes": ["circle"] * channels,
        "contact_shape_params": [{"radius": 6}] * channels,
        "device_channel_indices": list(range(channels)),
    }
    with open(f"{folder}/probe.json", "w") as file:
        json.dump({"specification": "probeinterface", "version": "0.2.21", "probes": [probe]}, file)
    return spikes


def run(command):
    """Wall-clock and CPU seconds, and what the command prints."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("betz")
    parser.add_argument("--channels", type=int, default=384)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--train", type=float, default=6.0, help="seconds that the sorter is trained on")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spikes = make(folder, args.channels, args.seconds, np.random.default_rng(1))
        cores = len(os.sched_getaffinity(0))
        print(f"{args.channels} channels, {args.seconds:g} s at 30 kHz, {spikes} spikes, {cores} cores")
        raw = [f"{folder}/traces.dat", "--rate", str(RATE), "--channels", str(args.channels), "--gain", str(GAIN)]
        common = ["--device", "cpu", "--json", "--force"]
        sorter = f"{folder}/sorter"
        steps = (
            ("train", args.train, ["train", *raw, "--until", str(args.train), "--probe", f"{folder}/probe.json", "--out", sorter]),
            ("run", args.seconds, ["run", sorter, *raw, "--out", f"{folder}/sorted.npz"]),
        )
        for name, seconds, arguments in steps:
            wall, cpu, out = run([args.betz, "sort", *arguments, *common])
            told = {key: value for key, value in json.loads(out).items() if isinstance(value, (int, float))}
            print(f"{name}: {wall:.2f} s of wall time, {wall / seconds:.2f} of the voltage's; {cpu:.1f} CPU s, "
                  f"{100 * cpu / seconds / cores:.0f} % of each core; {told}")


if __name__ == "__main__":
    main()
