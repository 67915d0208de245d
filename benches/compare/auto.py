"""Held-out R² of several choices of `betz train --decoder`, on parts of recordings that come after those trained on.

    python3 benches/compare/auto.py target/release/betz DATA [--only WORD] [KIND...]

DATA is the folder of the recordings; KIND is `linear lift experts recurrent auto` by default, and may have options of its own, as
in "linear --bank single". --only takes splits whose recording contains WORD. Prints one line of a Markdown table per split and
kind. Ends with status 1 if the last kind's mean R² is anywhere more than 0.01 below that of the first one, or more than 0.03
below the best.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile

# Recording, options of training, options of the part to score, options of both.
SPLITS = [
    ("reach95.npz", "--segments 0..25", "--segments 800..1092", ""),
    ("reach95.npz", "--segments 0..50", "--segments 800..1092", ""),
    ("reach95.npz", "--segments 0..100", "--segments 800..1092", ""),
    ("reach95.npz", "--segments 0..800", "--segments 800..1092", ""),
    ("linear_track.npz", "--until 492", "--from 492 --until 984", "--step 0.1"),
    ("linear_track.npz", "--until 690", "--from 690 --until 984", "--step 0.1"),
    ("linear_track.npz", "--from 492 --until 984", "--until 492", "--step 0.1"),
    ("decode/mihi_a.npz", "--segments 0..51", "--segments 51..73", ""),
    ("decode/chewie_a.npz", "--segments 0..27", "--segments 27..39", ""),
    ("decode/field1.npz", "--until 1020", "--from 1020 --until 1459.9", "--step 0.1"),
]
KINDS = ["linear", "lift", "experts", "recurrent", "auto"]
MOST_BELOW = 0.01
MOST_BELOW_BEST = 0.03


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
    command = [betz, "train", recording, "--out", model, "--decoder", *kind.split(), "--json", "--force"]
    trained, seconds = run(*command, *train, *both)
    scored, _ = run(betz, "evaluate", model, recording, "--json", *test)
    return trained["decoder"], [output["r2"] for output in scored["outputs"]], seconds


def main():
    betz, data, *kinds = sys.argv[1:]
    only = ""
    if kinds[:1] == ["--only"]:
        only, kinds = kinds[1], kinds[2:]
    kinds = kinds or KINDS
    behind, means = [], []
    print("| recording | trained on | scored on | `--decoder` | takes | R² | mean | processor s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, *split in SPLITS:
            if only not in name:
                continue
            recording = os.path.join(data, name)
            found = []
            train = " ".join(filter(None, (split[0], split[2])))
            for kind in kinds:
                model = os.path.join(folder, "model.betz")
                taken, scores, seconds = score(betz, recording, split, kind, model)
                found.append(sum(scores) / len(scores))
                each = " ".join(f"{r2:.3f}" for r2 in scores)
                row = [name, f"`{train}`", f"`{split[1]}`", f"`{kind}`", taken, each]
                print("|", " | ".join([*row, f"{found[-1]:.4f}", f"{seconds:.1f}"]), "|", flush=True)
            means.append(found)
            if found[-1] < found[0] - MOST_BELOW or found[-1] < max(found) - MOST_BELOW_BEST:
                scores = ", ".join(f"{kind} {mean:.4f}" for kind, mean in zip(kinds, found))
                behind.append(f"{name}, {train}: {scores}")
    for kind, column in zip(kinds, zip(*means)):
        print(f"mean over splits: {kind} {sum(column) / len(column):.4f}")
    for line in behind:
        print(f"more than {MOST_BELOW} below the first, or {MOST_BELOW_BEST} below the best: {line}", file=sys.stderr)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
