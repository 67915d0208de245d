"""The table of docs/decoders.md: how each kind decodes what training covers, and what it does not.

python benches/compare/recurrent.py DATA --betz PROGRAM [--kinds linear,lift,experts,recurrent] [--gru]
DATA holds reach95.npz and linear_track.npz. Reaches: trained on trials 0 to 873, scored on the others; R² as the mean of
x, y / of vx, vy. Needs numpy and scikit-learn; --gru adds PyTorch's GRU of 64 units, trained as users do.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from decoders import gru, rows

TRAINED = 874
LOST, SCREAMING, RATES = 24, 6, 0.7
KINDS = ("linear", "lift", "experts", "recurrent")


def text(truth, estimate):
    r2 = 1 - ((truth - estimate) ** 2).sum(0) / ((truth - truth.mean(0)) ** 2).sum(0)
    half = len(r2) // 2
    return f"{r2[:half].mean():.3f} / {r2[half:].mean():.3f}" if half > 1 else f"{r2.mean():.3f}"


def directions(x, segments):
    """The direction of each trial, of eight: k-means on the circle of where they end."""
    centre = np.mean([x[a, :2] for a, _ in segments], 0)
    ends = np.array([x[b - 1, :2] - centre for _, b in segments])
    angle = np.arctan2(ends[:, 1], ends[:, 0])
    at = np.radians(np.arange(8) * 45.0 - 157.5)
    for _ in range(20):
        of = np.argmin(np.abs(np.angle(np.exp(1j * (angle[:, None] - at)))), 1)
        at = np.array([np.angle(np.exp(1j * angle[of == k]).sum()) for k in range(8)])
    return of


def disturbed(counts, control, draw):
    """Counts as `control` says; rates as thinning, screams as up to 20 further spikes per bin."""
    counts, channels = counts.copy(), draw.permutation(counts.shape[1])
    if control == "lost":
        counts[:, channels[:LOST]] = 0
    if control == "rates":
        counts = draw.binomial(counts, RATES).astype(counts.dtype)
    if control == "screaming":
        counts[:, channels[:SCREAMING]] += draw.integers(0, 21, (len(counts), SCREAMING)).astype(counts.dtype)
    return counts


class Betz:
    def __init__(self, program, folder, kind):
        self.program, self.folder, self.kind = program, pathlib.Path(folder), kind

    def run(self, *line):
        subprocess.run([self.program, *map(str, line), "--device", "cpu"], check=True, capture_output=True)

    def train(self, recording, *part):
        self.run("train", recording, "--out", self.folder / "m.betz", "--decoder", self.kind, "--force", *part)

    def decode(self, recording, estimates, *part):
        """Writes the estimates of a part of the recording into their rows of `estimates`."""
        out = self.folder / "out.npz"
        self.run("decode", self.folder / "m.betz", recording, "--out", out, "--force", *part)
        with np.load(out) as decoded:
            estimates[decoded["steps"]] = decoded["outputs"]
        return estimates


def written(folder, data, **changed):
    path = pathlib.Path(folder) / "changed.npz"
    np.savez(path, **{**data, **changed})
    return path


def reaches(data, betz, column):
    x, segments = data["behavior"], data["segments"]
    train, test = segments[:TRAINED], segments[TRAINED:]
    held = rows(test)
    original = written(betz.folder, data)
    later = ("--segments", f"{TRAINED}..")
    betz.train(original, "--segments", f"0..{TRAINED}")
    column["reaches held out"] = text(x[held], betz.decode(original, np.zeros_like(x), *later)[held])
    one = np.array([[test[0, 0], test[-1, 1]]])
    path = written(betz.folder, data, segments=np.concatenate([train, one]))
    column["never reset"] = text(x[held], betz.decode(path, np.zeros_like(x), *later)[held])
    for control in ("lost", "rates", "screaming"):
        counts = disturbed(data["counts"], control, np.random.default_rng(0))
        path = written(betz.folder, data, counts=counts)
        column[control] = text(x[held], betz.decode(path, np.zeros_like(x), *later)[held])
    of, out = directions(x, segments), np.zeros_like(x)
    number = np.arange(len(segments))
    for k in range(8):
        listed = lambda chosen: ("--segments", ",".join(map(str, number[chosen])))
        betz.train(original, *listed((of != k) & (number < TRAINED)))
        mine = (of == k) & (number >= TRAINED)
        betz.decode(original, out, *listed(mine))
    column["direction left out"] = text(x[held], out[held])


def track(path, betz, column):
    betz.train(path, "--until", "690")
    line = [betz.program, "evaluate", betz.folder / "m.betz", path, "--from", "690", "--until", "984", "--moving", "20"]
    out = subprocess.run([*map(str, line), "--json"], check=True, capture_output=True).stdout
    column["linear track"] = f"{np.mean([o['r2'] for o in json.loads(out)['outputs']]):.3f}"


def by_gru(data, column):
    counts, x = data["counts"].astype(np.float32), data["behavior"].astype(np.float32)
    segments = [tuple(s) for s in data["segments"]]
    train, test = segments[:TRAINED], segments[TRAINED:]
    held, controls = rows(test), ("lost", "rates", "screaming")
    # One training for all controls: what is disturbed lies behind the recording.
    kinds = [disturbed(data["counts"], c, np.random.default_rng(0)).astype(np.float32) for c in controls]
    all_counts, all_x = np.concatenate([counts, counts, *kinds]), np.concatenate([x] * 5)
    shifted = [(a + len(x) * k, b + len(x) * k) for k in (2, 3, 4) for a, b in test]
    one = [(test[0][0] + len(x), test[-1][1] + len(x))]
    out = gru(all_counts, all_x, train, test + one + shifted, 0).reshape(5, len(x), -1)
    for name, estimate in zip(("reaches held out", "never reset", *controls), out):
        column[name] = text(x[held], estimate[held])
    of, out, number = directions(x, segments), np.zeros_like(x), np.arange(len(segments))
    for k in range(8):
        chosen = lambda which: [segments[i] for i in number[which]]
        mine = chosen((of == k) & (number >= TRAINED))
        where = rows(mine)
        out[where] = gru(counts, x, chosen((of != k) & (number < TRAINED)), mine, 0)[where]
    column["direction left out"] = text(x[held], out[held])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--betz", metavar="PROGRAM", required=True)
    arguments.add_argument("--kinds", default=",".join(KINDS))
    arguments.add_argument("--gru", action="store_true")
    arguments = arguments.parse_args()
    data = dict(np.load(arguments.data / "reach95.npz"))
    columns = {}
    for kind in arguments.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            betz, column = Betz(arguments.betz, folder, kind), columns.setdefault(kind, {})
            reaches(data, betz, column)
            track(arguments.data / "linear_track.npz", betz, column)
    if arguments.gru:
        by_gru(data, columns.setdefault("PyTorch's GRU", {}))
    print("| | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for row in next(iter(columns.values())):
        print(f"| {row} | " + " | ".join(column.get(row, "") for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
