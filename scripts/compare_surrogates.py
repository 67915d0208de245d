"""Runs `betz mine --surrogates` on a CUDA device and on the CPU, compares what comes of it to the bit, and times it.

    python3 compare_surrogates.py BETZ [EVENTS [EPISODES [SURROGATES]]]

Makes a recording of 60 neurons at 50 Hz with about EVENTS events (10,000,000) and takes two lists of EPISODES (3,500)
episodes: pairs, and random ones of four symbols. Each is tested against SURROGATES (99) surrogates with all threads, and
against a fifth as many with two; against shuffled intervals, too. Prints a line a run, with the device that the run
itself reports. Exit code 1 when anything differs or a run was not where it was asked to be.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

betz = sys.argv[1]
events, wanted, surrogates = [int(a) for a in sys.argv[2:]] + [10_000_000, 3_500, 99][len(sys.argv) - 2 :]
NEURONS, HZ, INTERVAL = 60, 50, "0.004,0.006"


def run(command, threads):
    environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
    done = subprocess.run([betz, *command], stdout=subprocess.PIPE, check=True, env=environment)
    return done.stdout


def mine(threads, device, recording, episodes, number, *more):
    command = ["mine", recording, "--count-only", episodes, "--interval", INTERVAL, "--json"]
    command += ["--device", device, "--surrogates", str(number), *more]
    return json.loads(run(command, threads))


def rows(found):
    return [[e[k] for k in ("symbols", "count", "expected", "std", "p", "q")] for e in found["episodes"]]


random.seed(1)
wrong = 0
everyone = os.cpu_count()
with tempfile.TemporaryDirectory() as folder:
    recording, listed = f"{folder}/spikes.npz", f"{folder}/episodes.txt"
    seconds = events // (NEURONS * HZ)
    command = ["simulate", "--network", "--neurons", str(NEURONS), "--rate", str(HZ), "--chains", "2"]
    run([*command, "--seconds", str(seconds), "--out", recording], everyone)
    singles = json.loads(run(["mine", recording, "--threshold", "1", "--max-size", "1", "--json",
                              "--interval", INTERVAL, "--device", "cpu"], everyone))
    symbols = [e["symbols"][0] for e in singles["episodes"]]
    lists = {
        "pairs": [(a, b) for a in symbols for b in symbols][:wanted],
        "fours": [random.choices(symbols, k=4) for _ in range(wanted)],
    }
    print(f"{singles['events']} events, {everyone} processors")
    # Compiles the kernels, which are kept.
    with open(listed, "w") as file:
        print(*lists["fours"][0], file=file)
    mine(everyone, "cuda", recording, listed, 1)
    print("| episodes | surrogates | threads | CPU, s | device, s | times | device |")
    print("|---|---|---|---|---|---|---|")
    few = max(surrogates // 5, 1)
    for name, episodes in lists.items():
        with open(listed, "w") as file:
            for episode in episodes:
                print(*episode, file=file)
        for threads, number, more in [(everyone, surrogates, []), (2, few, []), (everyone, few, ["--shuffle"])]:
            there = mine(threads, "cuda", recording, listed, number, *more)
            cpu = mine(threads, "cpu", recording, listed, number, *more)
            right = rows(there) == rows(cpu)
            placed = there["chance"]["device"] == "cuda:0" and cpu["chance"]["device"] == "cpu"
            wrong += not (right and placed)
            took = cpu["chance_seconds"], there["chance_seconds"]
            print(
                f"| {len(episodes)} {name} | {number}{' shuffled' if more else ''} | {threads} |"
                f" {took[0]:.2f} | {took[1]:.2f} | {took[0] / took[1]:.1f} | {there['chance']['device']} |",
                "equal" if right else "DIFFER",
                flush=True,
            )
    # Without a name the device is taken where there is much to do.
    there = mine(everyone, "auto", recording, listed, few)
    print("--device auto:", there["chance"]["device"])
    wrong += there["chance"]["device"] != "cuda:0"
print("all equal" if wrong == 0 else f"{wrong} runs wrong")
sys.exit(wrong > 0)
