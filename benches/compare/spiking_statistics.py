"""Irregularity and correlations of PD14 beside NEST: is Betz nearer to NEST than two seeds of NEST are to each other?

    nest/bin/python benches/compare/spiking_nest.py pd14 0.1 4 1 nest1.npz
    nest/bin/python benches/compare/spiking_nest.py pd14 0.1 4 2 nest2.npz
    betz simulate --model pd14 --scale 0.1 --settle 0 --seconds 4.1 --out betz.npz
    nest/bin/python benches/compare/spiking_statistics.py nest1.npz nest2.npz betz.npz

For each population: mean CV of the intervals of neurons with 3 spikes or more, mean correlation of 200 neurons' counts in bins of
5 ms, and the Kolmogorov-Smirnov distance of each distribution between the two seeds of NEST and between Betz and either of them.
"""

import sys

import numpy as np

NAMES = ["L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I"]
BIN = 0.005
SETTLED = 0.1


def read(path, sizes=None):
    data = np.load(path, allow_pickle=False)
    if "seconds" in data:
        return data["seconds"], data["neuron"], data["sizes"]
    seconds = data["spike_ticks"] * float(data["tick_seconds"]) - SETTLED
    later = seconds >= 0
    return seconds[later], data["spike_channels"][later], sizes


def populations(seconds, neuron, sizes):
    firsts = np.concatenate([[0], np.cumsum(sizes)])
    end = seconds.max()
    for first, last in zip(firsts, firsts[1:]):
        own = (neuron >= first) & (neuron < last)
        order = np.lexsort((seconds[own], neuron[own]))
        n, t = neuron[own][order] - first, seconds[own][order]
        cv = []
        starts = np.searchsorted(n, np.arange(last - first + 1))
        for a, b in zip(starts, starts[1:]):
            if b - a >= 3:
                intervals = np.diff(t[a:b])
                cv.append(intervals.std() / intervals.mean())
        # The same rule for all: the first 200 neurons that fire.
        firing = np.unique(n)[:200]
        counts = np.zeros((len(firing), int(end / BIN) + 1))
        place = np.searchsorted(firing, n)
        inside = (place < len(firing)) & (firing[np.minimum(place, len(firing) - 1)] == n)
        np.add.at(counts, (place[inside], (t[inside] / BIN).astype(int)), 1)
        r = np.corrcoef(counts)[np.triu_indices(len(firing), 1)]
        yield np.array(cv), r


def distance(a, b):
    at = np.sort(np.concatenate([a, b]))
    part = lambda x: np.searchsorted(np.sort(x), at, side="right") / len(x)
    return np.abs(part(a) - part(b)).max()


nest = [read(path) for path in sys.argv[1:3]]
betz = read(sys.argv[3], nest[0][2])
one, two, ours = (list(populations(*data)) for data in [*nest, betz])
print("| population | mean CV: NEST, NEST, Betz | KS of CV: NEST-NEST, Betz-NEST, Betz-NEST | mean r | KS of r |")
print("|---|---|---|---|---|")
for name, a, b, c in zip(NAMES, one, two, ours):
    words = []
    for k in range(2):
        digits = 3 if k == 0 else 4
        words.append(", ".join(f"{x[k].mean():.{digits}f}" for x in (a, b, c)))
        words.append(", ".join(f"{distance(x[k], y[k]):.3f}" for x, y in ((a, b), (c, a), (c, b))))
    print(f"| {name} | " + " | ".join(words) + " |")
