"""Reaching: from a recording to a model at work. Cells (# %%) run in VS Code, Spyder and Jupytext.

The recording is ../shared/data/reach95.npz, or the folder that BETZ_SHARED names; without it the script says so.
"""

# %% The recording
import os
import pathlib
import sys

import numpy as np

import betz

shared = os.environ.get("BETZ_SHARED") or pathlib.Path(__file__).parents[3] / "shared"
path = pathlib.Path(shared) / "data" / "reach95.npz"
if not path.exists():
    print(f"skipped: there is no {path.name}")
    sys.exit()
recording = betz.Recording.from_npz(path)
print(recording, recording.behavior_names)

# %% Train on the first four fifths of the trials
data = recording.align()
trials = range(len(data.segments))
cut = len(trials) * 4 // 5
train, test = data.select(trials[:cut]), data.select(trials[cut:])
decoder = betz.Decoder(bank="reach", progress=lambda *state: print(*state, file=sys.stderr)).fit(train)
for score in decoder.model_.scores:
    print(f"cross-validated {score['name']}: R² {score['r2']:.3f}")

# %% Its score on the rest
scores, mean = decoder.model_.score(test)
print(f"unseen: mean R² {mean:.3f}")

# %% At work: the same estimates, step by step
estimates = decoder.predict(test)
counts = np.zeros((data.steps, recording.channels), np.uint8)
steps = (recording.spike_ticks * recording.tick_seconds / data.step_seconds + 1e-6).astype(int)
weights = 1 if recording.spike_weights is None else recording.spike_weights.astype(np.uint8)
inside = steps < data.steps
np.add.at(counts, (steps[inside], recording.spike_channels[inside]), weights if np.isscalar(weights) else weights[inside])
session, out = decoder.session(), np.empty(estimates.shape[1], np.float32)
start, stop = test.segments[0]
worst = 0.0
for step in range(start, stop):
    session.step(counts[step], out)
    worst = max(worst, np.abs(out - estimates[step]).max())
print(f"session against decoding: {worst:.2g} at most; a step took {session.stats()['p50_us']:.2f} µs (median)")
assert worst < 1e-3 * np.nanmax(np.abs(estimates))
