"""Held-out R² of several choices of `betz train --decoder`, on parts of recordings that come after those trained on.

    python3 benches/compare/auto.py target/release/betz DATA [KIND...]

DATA is the folder of the recordings; KIND is `linear auto` by default. Prints one line of a Markdown table per split and
kind, and ends with status 1 if a kind's mean R² is more than 0.01 below that of the first one.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

# Recording, options of training, options of the part to score, options of both.
SPLITS = [
    ("reach95.npz", "--segments 0..800", "--segments 800..", ""),
    ("reach95.npz", "--segments 0..200", "--segments 800..", ""),
    ("linear_track.npz", "--until 690", "--from 690 --until 984", "--step 0.1"),
    ("linear_track.npz", "--until 492", "--from 492 --until 984", "--step 0.1"),
    ("linear_track.npz", "--from 492 --until 984", "--until 492", "--step 0.1"),
    ("linear_track.npz", "--until 690", "--from 690 --until 984", ""),
]
MOST_BELOW = 0.01


def run(*arguments):
    """The JSON object that a command prints, and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), seconds


def score(betz, recording, split, kind, model):
    """Kind that was taken, R² of each output on the part kept aside, processor seconds of training."""
    train, test, both = (options.split() for options in split)
    command = [betz, "train", recording, "--out", model, "--decoder", kind, "--json", "--force"]
    trained, seconds = run(*command, *train, *both)
    scored, _ = run(betz, "evaluate", model, recording, "--json", *test)
    return trained["decoder"], [output["r2"] for output in scored["outputs"]], seconds


def main():
    betz, data, *kinds = sys.argv[1:]
    kinds = kinds or ["linear", "auto"]
    behind = []
    print("| recording | trained on | scored on | `--decoder` | takes | R² | mean | processor s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, *split in SPLITS:
            recording = os.path.join(data, name)
            first = None
            for kind in kinds:
                model = os.path.join(folder, "model.betz")
                taken, scores, seconds = score(betz, recording, split, kind, model)
                mean = sum(scores) / len(scores)
                each = " ".join(f"{r2:.3f}" for r2 in scores)
                train = " ".join(filter(None, (split[0], split[2])))
                row = [name, f"`{train}`", f"`{split[1]}`", f"`{kind}`", taken, each]
                print("|", " | ".join([*row, f"{mean:.4f}", f"{seconds:.1f}"]), "|", flush=True)
                first = mean if first is None else first
                if mean < first - MOST_BELOW:
                    behind.append(f"{name}, {train}: {kind} {mean:.4f}, {kinds[0]} {first:.4f}")
    for line in behind:
        print(f"more than {MOST_BELOW} below: {line}", file=sys.stderr)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
