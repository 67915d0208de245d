"""Decoders that are customary elsewhere, on the split that `benches/record/decoders.md` uses.

python benches/compare/decoders.py reach95.npz [--gru] [--trees] [--betz PROGRAM]
Trains on trials 0 to 799, scores the others: R² as the mean of x, y and of vx, vy; wall seconds of training and
scoring (of Betz the whole of `betz train`, with cross-validation and reading), and processor seconds.
Needs numpy and scikit-learn; --gru needs torch (its CPU wheel does); --betz runs that command line on the same
split.
"""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
from sklearn.linear_model import Ridge

STEP = 0.1
LAGS = 10


def lagged(counts, segments, lags):
    """The counts of a bin and of the `lags` − 1 before it, 0 before a trial begins."""
    out = np.zeros((len(counts), lags, counts.shape[1]), np.float32)
    for start, stop in segments:
        for lag in range(min(lags, stop - start)):
            out[start + lag : stop, lag] = counts[start : stop - lag]
    return out.reshape(len(counts), -1)


def rows(segments):
    return np.concatenate([np.arange(a, b) for a, b in segments])


class Clock:
    """Wall and processor seconds since it was made, children's included."""

    def __init__(self):
        self.wall, self.cpu = time.time(), self.used()

    @staticmethod
    def used():
        return sum(os.times()[:4])

    def text(self):
        return f"{time.time() - self.wall:6.1f} s {self.used() - self.cpu:6.1f} s"


def line(name, r2, clock):
    half = len(r2) // 2
    print(f"{name:<34} {np.mean(r2[:half]):.4f} {np.mean(r2[half:]):.4f}  {clock.text()}", flush=True)


def report(name, truth, estimate, clock):
    line(name, 1 - ((truth - estimate) ** 2).sum(0) / ((truth - truth.mean(0)) ** 2).sum(0), clock)


def betz(program, recording, kind):
    with tempfile.TemporaryDirectory() as folder:
        model = str(pathlib.Path(folder) / "m.betz")
        run = lambda *line: json.loads(
            subprocess.run([program, *line, "--json", "--device", "cpu"], check=True, capture_output=True).stdout
        )
        clock = Clock()
        trained = run("train", recording, "--out", model, "--segments", "0..800", "--decoder", kind)
        scores = run("evaluate", model, recording, "--segments", "800..")["outputs"]
        line(f"betz {kind}: {trained['decoder']}", [o["r2"] for o in scores], clock)


def kalman(counts, x, train, test, lag):
    """Position and velocity, counts `lag` bins before (Wu et al. 2003), full gain."""
    shift = lambda segments: [(a + lag, b) for a, b in segments if b - a > lag + 2]
    y_of = lambda segments: np.concatenate([counts[a - lag : b - lag] for a, b in segments])
    segments = shift(train)
    i = rows(segments)
    y, state = y_of(segments), x[i]
    y_mean, x_mean = y.mean(0), x[rows(train)].mean(0)
    y, state = y - y_mean, state - x_mean
    before = np.concatenate([x[a : b - 1] for a, b in train]) - x_mean
    after = np.concatenate([x[a + 1 : b] for a, b in train]) - x_mean
    a_t = np.linalg.lstsq(before, after, rcond=None)[0]
    w = np.cov((after - before @ a_t).T, bias=True)
    c_t = np.linalg.lstsq(state, y, rcond=None)[0]
    q = np.cov((y - state @ c_t).T, bias=True) + 1e-6 * np.eye(y.shape[1])
    out = np.tile(x_mean, (len(x), 1))
    for start, stop in test:
        s, p = np.zeros(x.shape[1]), w.copy()
        for t in range(start, stop):
            s, p = s @ a_t, a_t.T @ p @ a_t + w
            if t - lag >= start:
                gain = p @ c_t @ np.linalg.inv(c_t.T @ p @ c_t + q)
                s = s + gain @ (counts[t - lag] - y_mean - s @ c_t)
                p = p - gain @ c_t.T @ p
            out[t] = s + x_mean
    return out


def gru(counts, x, train, test, seed):
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(2)
    scale = counts[rows(train)].std(0) + 1e-3
    mean, sd = x[rows(train)].mean(0), x[rows(train)].std(0)
    longest = max(b - a for a, b in train + test)

    def packed(segments):
        c = np.zeros((len(segments), longest, counts.shape[1]), np.float32)
        y = np.zeros((len(segments), longest, x.shape[1]), np.float32)
        mask = np.zeros((len(segments), longest, 1), np.float32)
        for k, (a, b) in enumerate(segments):
            c[k, : b - a] = counts[a:b] / scale
            y[k, : b - a] = (x[a:b] - mean) / sd
            mask[k, : b - a] = 1
        return [torch.from_numpy(v) for v in (c, y, mask)]

    net = torch.nn.GRU(counts.shape[1], 64, batch_first=True)
    drop, head = torch.nn.Dropout(0.2), torch.nn.Linear(64, x.shape[1])
    parameters = [*net.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=1e-2)
    epochs = 60
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    c, y, mask = packed(train)
    for _ in range(epochs):
        drop.train()
        for batch in torch.randperm(len(train)).split(32):
            noisy = drop(c[batch] + 0.3 * torch.randn_like(c[batch]))
            estimate = head(drop(net(noisy)[0]))
            loss = ((estimate - y[batch]) ** 2 * mask[batch]).sum() / mask[batch].sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
        schedule.step()
    out = np.zeros_like(x)
    c, _, _ = packed(test)
    with torch.no_grad():
        estimate = head(net(c)[0]).numpy() * sd + mean
    for (a, b), e in zip(test, estimate):
        out[a:b] = e[: b - a]
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("recording")
    arguments.add_argument("--gru", action="store_true")
    arguments.add_argument("--trees", action="store_true")
    arguments.add_argument("--betz", metavar="PROGRAM")
    arguments = arguments.parse_args()
    data = np.load(arguments.recording)
    counts, x = data["counts"].astype(np.float32), data["behavior"].astype(np.float32)
    segments = [tuple(s) for s in data["segments"]]
    train, test = segments[:800], segments[800:]
    i, j = rows(train), rows(test)

    features = lagged(counts, segments, LAGS)
    started = Clock()
    ridge = Ridge(100.0).fit(features[i], x[i])
    report(f"ridge on {LAGS} lags", x[j], ridge.predict(features[j]), started)
    for lag in (0, 1, 2):
        started = Clock()
        out = kalman(counts, x, train, test, lag)
        report(f"Kalman, counts {lag} bins before", x[j], out[j], started)
    if arguments.betz:
        for kind in ("linear", "lift", "experts", "auto", "kalman", "refit", "recurrent"):
            betz(arguments.betz, arguments.recording, kind)
    if arguments.trees:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.multioutput import MultiOutputRegressor

        started = Clock()
        trees = HistGradientBoostingRegressor(max_iter=200, learning_rate=0.08)
        trees = MultiOutputRegressor(trees).fit(features[i], x[i])
        report(f"boosted trees on {LAGS} lags", x[j], trees.predict(features[j]), started)
    if arguments.gru:
        for seed in (0, 1):
            started = Clock()
            out = gru(counts, x, train, test, seed)
            report(f"GRU of 64, seed {seed}", x[j], out[j], started)


if __name__ == "__main__":
    main()
