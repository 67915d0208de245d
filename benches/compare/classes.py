"""The figures of classes and of recalibration without labels: the tables of benches/record/classes.md.

    python benches/compare/classes.py target/release/betz reach95.npz [--kept-aside TRIALS] [--package PACKAGE]

Trains on trials 0 to 799 of `reach95` (shared data) and scores the others; the thresholds of events, calibration and the gate come
from the training trials alone. `splits` scores classes on other trials, too: each quarter of all trials by a model of the other
three, and, with TRIALS, the split of the prototype, which was fitted to all trials and scored on others that are kept aside.
Recalibration sees trials 800 to 899 without labels and is scored on 900 to 1091. Onset is the first
step of the run above 60 mm/s that holds the greatest speed; a target counts from 0.2 s before it to the trial's end. With PACKAGE,
where scripts/install.sh has installed a release build, the instructions of steps are counted too. Needs NumPy; counting needs gcc and
valgrind.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN, TEST, WINDOW, LATER = "0..800", "800..1092", "800..900", "900..1092"
FASTER, BEFORE, CERTAIN = 60.0, 2, 0.8
# Directions of the eight targets, in degrees, from which their clusters are found.
DIRECTIONS = [-172, -130, -55, -15, 22, 67, 112, 157]


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder

    def __call__(self, *arguments):
        """The JSON that a command prints, and its CPU seconds."""
        before = os.times()
        done = subprocess.run([self.program, *map(str, arguments), "--json"], cwd=self.folder, check=True, capture_output=True, text=True)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return json.loads(done.stdout), cpu

    def table(self, *arguments):
        """The rows of a table that a command writes."""
        self(*arguments, "--out", "table.csv")
        with open(os.path.join(self.folder, "table.csv")) as rows:
            return list(csv.DictReader(rows))


def movements(data, centres=None):
    """Of each trial: first step, step after the last, onset, end of the run, target; and the directions of the targets, which are
    found unless `centres` has them."""
    behavior, found = data["behavior"], []
    for start, stop in data["segments"]:
        speed = np.hypot(*behavior[start:stop, 2:4].T)
        on = off = int(np.argmax(speed))
        while on > 0 and speed[on - 1] > FASTER:
            on -= 1
        while off < stop - start - 1 and speed[off + 1] > FASTER:
            off += 1
        towards = behavior[stop - 1, :2] - behavior[start, :2]
        found.append((start, stop, start + on, start + off + 1, np.arctan2(towards[1], towards[0])))
    angles = np.array([f[4] for f in found])
    def nearest_to(centres):
        return np.argmin(np.abs(np.angle(np.exp(1j * (angles[:, None] - centres)))), axis=1)

    if centres is None:
        centres = np.radians(DIRECTIONS)
        for _ in range(10):
            nearest = nearest_to(centres)
            centres = np.array([np.angle(np.exp(1j * angles[nearest == k]).mean()) for k in range(8)])
    return [(*f[:4], int(k)) for f, k in zip(found, nearest_to(centres))], centres


def write_moves(path, trials, dt):
    """Intervals of rest and movement."""
    write_intervals(path, [part for start, stop, on, off, _ in trials for part in
                           ((start, on, "rest"), (on, off, "move"), (off, stop, "rest"))], dt)


def write_targets(path, trials, dt):
    """Intervals of rest and of the eight targets."""
    write_intervals(path, [part for start, stop, on, _, k in trials for part in
                           ((start, max(on - BEFORE, start), "rest"), (max(on - BEFORE, start), stop, f"t{k}"))], dt)


def write_intervals(path, intervals, dt):
    """Intervals of steps; each begins a little before its first step."""
    with open(path, "w") as file:
        file.write("start,stop,name\n")
        for start, stop, name in intervals:
            if start < stop:
                file.write(f"{(start - 0.25) * dt:.6f},{(stop - 0.25) * dt:.6f},{name}\n")


class Targets:
    """Directions at steps from onset, and decisions, of trials that were decoded."""

    STEPS = (-3, -2, -1, 0, 1, 2)

    def __init__(self):
        self.right = {at: [] for at in self.STEPS}
        self.decided, self.times, self.trials = [], [], 0

    def add(self, rows, trials):
        p = {int(row["step"]): [float(row[f"t{k}"]) for k in range(8)] for row in rows}
        self.trials += len(trials)
        for start, stop, onset, _, target in trials:
            for at in self.STEPS:
                if start <= onset + at < stop:
                    self.right[at].append(np.argmax(p[onset + at]) == target)
            for step in range(start, stop):
                if max(p[step]) >= CERTAIN:
                    self.decided.append(np.argmax(p[step]) == target)
                    self.times.append(step - onset)
                    break

    def share(self, at):
        """Share of right directions and its standard error."""
        right = self.right[at]
        share = np.mean(right)
        return share, np.sqrt(share * (1 - share) / len(right))

    def text(self, dt):
        early, late = (f"{share:.3f} ± {error:.3f}" for share, error in map(self.share, (-3, 0)))
        return f"{early}, {late}; {100 * np.mean(self.decided):.1f} % (of {100 * len(self.decided) / self.trials:.1f} % of trials, " \
            f"{1000 * np.mean(self.times) * dt:.0f} ms from onset)"


def rest_speed(rows, data):
    """Root mean square of the estimated velocities, vx and vy, while the hand rests, in mm/s."""
    squares = []
    for row in rows:
        if np.hypot(*data["behavior"][int(row["step"]), 2:4]) <= FASTER:
            squares += [float(row["vx"]) ** 2, float(row["vy"]) ** 2]
    return np.sqrt(np.mean(squares))


def velocity_r2(evaluated):
    return np.mean([output["r2"] for output in evaluated["outputs"] if output["name"] in ("vx", "vy")])


def mean_r2(evaluated):
    return np.mean([output["r2"] for output in evaluated["outputs"]])


def shuffled_labels(trials, dt, path):
    """The runs of rest and movement of all trials, laid over the recording in a random order, which says nothing."""
    runs = [run for start, stop, on, off, _ in trials for run in ((on - start, "rest"), (off - on, "move"), (stop - off, "rest"))]
    intervals, at = [], 0
    for k in np.random.default_rng(7).permutation(len(runs)):
        intervals.append((at, at + runs[k][0], runs[k][1]))
        at += runs[k][0]
    write_intervals(path, intervals, dt)


def class_rows(betz, recording, data, folder):
    dt, (trials, _) = float(data["step_seconds"]), movements(data)
    train = ("train", recording, "--segments", TRAIN)
    classes = (*train, "--decoder", "classes", "--labels")
    _, cpu = betz(*classes, "move=speed>60", "--out", "move.betz")
    scores = betz("evaluate", "move.betz", recording, "--segments", TEST)[0]["classes"]
    yield "move/rest: balanced accuracy, AUC, ECE", "0.965, 0.994, 0.005", decisions(scores)
    moves = os.path.join(folder, "moves.csv")
    write_moves(moves, trials, dt)
    betz(*classes, moves, "--out", "onsets.betz")
    events = betz("evaluate", "onsets.betz", recording, "--segments", TEST)[0]["classes"]
    found = events["events"][events["classes"].index("move")]
    yield "onsets: missed, false alarms per minute, mean latency", "0 %, 1, 0 ms", "{:.1f} %, {:.2f}, {:.0f} ms".format(
        100 * found["missed"], found["false_alarms_per_minute"], 1000 * found["latency"])
    labels, targets = os.path.join(folder, "targets.csv"), Targets()
    write_targets(labels, trials, dt)
    _, cpu_of_targets = betz(*classes, labels, "--out", "targets.betz")
    targets.add(betz.table("decode", "targets.betz", recording, "--segments", TEST), trials[800:])
    yield "8 targets, 300 ms before onset, at onset; decisions right", "0.97, 0.99; 99.3 %", targets.text(dt)
    yield "training with a choice of banks, CPU s: move/rest; targets", "3", f"{cpu:.1f}; {cpu_of_targets:.1f}"
    cpus = [betz(*classes, of, "--bank", "reach", "--out", "reach.betz")[1] for of in ("move=speed>60", labels)]
    yield "training with the bank reach, CPU s: move/rest; targets", "3", "{:.1f}; {:.1f}".format(*cpus)


def split_rows(betz, recording, data, folder, kept_aside):
    """The scores of classes on other trials than those of `TEST`."""
    dt, (trials, centres) = float(data["step_seconds"]), movements(data)
    labels = os.path.join(folder, "targets.csv")
    write_targets(labels, trials, dt)
    quarters = [(k * len(trials) // 4, (k + 1) * len(trials) // 4) for k in range(4)]
    scores, targets = [], Targets()
    for first, stop in quarters:
        others = ",".join(f"{a}..{b}" for a, b in ((0, first), (stop, len(trials))) if a < b)
        train = ("train", recording, "--segments", others, "--decoder", "classes", "--labels")
        scored = (recording, "--segments", f"{first}..{stop}")
        betz(*train, "move=speed>60", "--out", "move.betz")
        scores.append(betz("evaluate", "move.betz", *scored)[0]["classes"])
        betz(*train, labels, "--out", "targets.betz")
        targets.add(betz.table("decode", "targets.betz", *scored), trials[first:stop])
    yield "quarters of all trials, each by a model of the others", decisions(*scores), targets.text(dt)
    if kept_aside is None:
        return
    train = ("train", recording, "--decoder", "classes", "--labels")
    others, targets = movements(np.load(kept_aside), centres)[0], Targets()
    betz(*train, "move=speed>60", "--out", "move.betz")
    betz(*train, labels, "--out", "targets.betz")
    targets.add(betz.table("decode", "targets.betz", kept_aside), others)
    scores = betz("evaluate", "move.betz", kept_aside)[0]["classes"]
    yield "trials kept aside, by a model of all trials (the prototype's split)", decisions(scores), targets.text(dt)


def shuffled_rows(betz, recording, data, folder):
    shuffled = os.path.join(folder, "shuffled.csv")
    shuffled_labels(movements(data)[0], float(data["step_seconds"]), shuffled)
    report, _ = betz("train", recording, "--segments", TRAIN, "--decoder", "classes", "--labels", shuffled, "--out", "shuffled.betz")
    scores = report["classes"]["scores"]
    yield "shuffled labels: AUC in the folds of training", "0.5 ± 0.03", f"{scores['auc'][scores['classes'].index('move')]:.3f}"


def decisions(*scores):
    """Balanced accuracy of decisions by the largest probability over its share in training, AUC and calibration error, as text: the
    means over `scores`, with the standard error of the balanced accuracy."""
    of = np.array([(s["balanced_accuracy_by_prior"], s["auc"][1], s["ece"]) for s in scores]).mean(axis=0)
    # Sums over rows of the confusion by the largest probability are the labelled steps of each class.
    steps = np.sum([np.sum(s["confusion"], axis=1) for s in scores], axis=0)
    error = np.sqrt(np.sum(of[0] * (1 - of[0]) / steps)) / len(steps)
    return f"{of[0]:.3f} ± {error:.3f}, {of[1]:.4f}, {of[2]:.4f}"


def sums_rows(betz, recording):
    labels = "move=speed>60"
    for part, segments in (("a", "0..400"), ("b", "400..700")):
        betz("sums", recording, "--segments", segments, "--bank", "reach", "--labels", labels, "--out", f"{part}.sums")
    betz("solve", "a.sums", "b.sums", "--calibrate", recording, "--segments", "700..800", "--labels", labels, "--out", "lda.betz")
    scores = betz("evaluate", "lda.betz", recording, "--segments", TEST)[0]["classes"]
    yield "the same by LDA from sums of trials 0-399 and 400-699, calibrated on 700-799", "", decisions(scores)


def gate_rows(betz, recording, data):
    train = ("train", recording, "--segments", TRAIN)
    betz(*train, "--decoder", "linear", "--out", "linear.betz")
    betz(*train, "--decoder", "linear", "--labels", "move=speed>60", "--gate", "move", "--out", "gated.betz")
    figures = []
    for model in ("linear.betz", "gated.betz"):
        r2 = velocity_r2(betz("evaluate", model, recording, "--segments", TEST)[0])
        figures.append((r2, rest_speed(betz.table("decode", model, recording, "--segments", TEST), data)))
    yield "gate: R² of velocity, its rms at rest", "0.743 to 0.890, 42 to 10 mm/s", "{:.3f} to {:.3f}, {:.0f} to {:.0f} mm/s".format(
        figures[0][0], figures[1][0], figures[0][1], figures[1][1])


def drift_rows(betz, recording):
    """R² (mean of the four outputs) of the old model, recalibrated without labels, and adapted with labels."""
    betz("train", recording, "--segments", TRAIN, "--decoder", "linear", "--retain", "--out", "kept.betz")
    for name, options in (("gains of 0.3 to 0.8, seed 2", ("--gain", "0.3,0.8", "--seed", 2)), ("gains of 0.05 to 0.4", ("--gain", "0.05,0.4", "--seed", 1)),
                          ("12 channels swapped", ("--swap", 12, "--seed", 1)), ("24 channels swapped", ("--swap", 24, "--seed", 1)),
                          ("12 channels lost", ("--lose", 12, "--seed", 1)), ("3 channels screaming", ("--scream", 3, "--seed", 1)), ("none", None)):
        drifted = recording
        if options is not None:
            drifted = "drifted.npz"
            betz("drift", recording, *options, "--at", 0, "--out", drifted)
        report, _ = betz("adapt", "kept.betz", drifted, "--segments", WINDOW, "--no-labels=apply", "--out", "new.betz")
        old, new = (mean_r2(betz("evaluate", model, drifted, "--segments", LATER)[0]) for model in ("kept.betz", "new.betz"))
        yield name, f"{old:.3f}", f"{new:.3f}" if report["applied"] else f"not suggested: {report['refusal']}"


def instructions(program, package, folder):
    """Instructions of a step with 20 spikes: two outputs, 12 latents, 128 cosines."""
    betz = Runner(program, folder)
    betz("simulate", "--neurons", 95, "--seconds", 60, "--tick", 0.01, "--out", "p.npz")
    models = {"lift": ("--decoder", "lift", "--latents", 12, "--lift-units", 128), "classes": ("--decoder", "classes", "--labels", "right=x>0"),
              "linear": ("--decoder", "linear",), "gated": ("--decoder", "linear", "--velocity", "x,y", "--labels", "right=x>0", "--gate", "right")}
    cost = os.path.join(folder, "cost")
    subprocess.run(["gcc", "-std=gnu11", "-O2", ROOT / "ffi/tests/c/cost.c", "-o", cost, f"-I{package}/include", f"-L{package}/lib", "-lbetz",
                    "-lm", "-pthread", f"-Wl,-rpath,{package}/lib"], check=True)
    for name, options in models.items():
        betz("train", "p.npz", "--step", 0.01, "--bank", "reach", "--folds", 2, *options, "--out", f"{name}.betz")
        counted = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=betz_session_step_spikes", "--callgrind-out-file=out",
                                  cost, f"{name}.betz", "20"], cwd=folder, check=True, capture_output=True, text=True).stdout
        totals = int(re.search(r"^totals: (\d+)", pathlib.Path(folder, "out").read_text(), re.M)[1])
        yield name, totals // int(counted.split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("recording")
    parser.add_argument("--package")
    parser.add_argument("--kept-aside", help="recording with trials that are kept aside")
    parser.add_argument("--only", choices=["classes", "splits", "sums", "shuffled", "gate", "drift", "steps"], help="only these rows")
    arguments = parser.parse_args()
    recording = os.path.abspath(arguments.recording)
    data = np.load(recording)
    with tempfile.TemporaryDirectory() as folder:
        betz = Runner(arguments.program, folder)
        kept_aside = arguments.kept_aside and os.path.abspath(arguments.kept_aside)
        tables = {"classes": lambda: class_rows(betz, recording, data, folder),
                  "splits": lambda: split_rows(betz, recording, data, folder, kept_aside),
                  "sums": lambda: sums_rows(betz, recording), "shuffled": lambda: shuffled_rows(betz, recording, data, folder),
                  "gate": lambda: gate_rows(betz, recording, data), "drift": lambda: drift_rows(betz, recording)}
        for name, rows in tables.items():
            if arguments.only in (None, name):
                print(f"\n{name}", flush=True)
                for row in rows():
                    print("| " + " | ".join(row) + " |", flush=True)
        if arguments.package and arguments.only in (None, "steps"):
            print("\n| step of 95 channels, 20 spikes | instructions |\n|---|---|")
            for name, count in instructions(arguments.program, os.path.abspath(arguments.package), folder):
                print(f"| {name} | {count} |", flush=True)


if __name__ == "__main__":
    main()
