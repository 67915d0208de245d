"""Runs `betz mine` on a CUDA device and on the CPU with every strategy and compares the counts.

    python3 compare_mine.py BETZ EVENTS EPISODES LOW,HIGH THRESHOLD

Counts the given episodes, then mines levelwise; prints a line a run, with the device that the run
itself reports. Exit code 1 when any counts differ or a run was not where it was asked to be.
"""

import json
import subprocess
import sys

STRATEGIES = [
    "latest-start",
    "serial",
    "two-pass",
    "local-tracking",
    "local-tracking-atomic",
    "local-tracking-flags",
    "map-concat",
    "hybrid",
]

betz, events, episodes, interval, threshold = sys.argv[1:]


def mine(device, strategy, *what):
    command = [betz, "mine", events, "--interval", interval, "--json"]
    command += ["--device", device, "--strategy", strategy, *what]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def counts(found):
    return [(e["symbols"], e["intervals"], e["count"]) for e in found["episodes"]]


wrong = 0
for name, what in [
    ("given", ["--count-only", episodes]),
    ("levelwise", ["--threshold", threshold, "--max-size", "4"]),
]:
    expected = counts(mine("cpu", "latest-start", *what))
    for strategy in STRATEGIES:
        # Without a name, small work stays on the CPU, and the run must say so.
        for device in ["cpu", "cuda"] + ["auto"] * (strategy == "latest-start"):
            found = mine(device, strategy, *what)
            right = counts(found) == expected
            there = found["device"] == "cuda:0" if device == "cuda" else found["device"] == "cpu"
            wrong += not (right and there)
            print(
                f"{name}: {len(expected)} episodes, {strategy}, --device {device}: ran on "
                f"{found['device']}, {found['seconds']:.3f} s, counts",
                "equal" if right else "DIFFER",
            )
print("all equal" if wrong == 0 else f"{wrong} runs wrong")
sys.exit(wrong > 0)
