"""Cultures: chains of firing, and who goes together. Cells (# %%) run in VS Code, Spyder and Jupytext.

The recording is ../shared/data/culture_div28.npz, or the folder that BETZ_SHARED names; without it the script says so.
"""

# %% The recording
import os
import pathlib
import sys

import numpy as np

import betz

shared = os.environ.get("BETZ_SHARED") or pathlib.Path(__file__).parents[3] / "shared"
path = pathlib.Path(shared) / "data" / "culture_div28.npz"
if not path.exists():
    print(f"skipped: there is no {path.name}")
    sys.exit()
recording = betz.Recording.from_npz(path)
print(recording)

# %% Chains: who fires after whom within 5 to 10 ms, a thousand times or more
mined = betz.mine(recording, delays=[(0.005, 0.010)], threshold=1000, max_size=4)
for episode in sorted(mined.maximal, key=lambda e: (len(e), e.count))[-5:]:
    print(episode)

# %% Counts in bins of 100 ms, and the network of each ten minutes
bins = (recording.spike_ticks * recording.tick_seconds / 0.1).astype(int)
counts = np.zeros((bins.max() + 1, recording.channels), np.uint16)
np.add.at(counts, (bins, recording.spike_channels), 1)
network = betz.network(counts, window=min(6000, len(counts)), step=6000, threshold=0.3)
print(network)
for k in range(len(network)):
    sizes = np.bincount(network.communities(k))
    print(f"window {k}: {(sizes > 1).sum()} communities of several channels, the largest of {sizes.max()}")
