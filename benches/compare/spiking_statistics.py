"""Irregularity and correlations of PD14 beside NEST: is Betz as near to NEST as seeds of NEST are to each other?

    for s in 1 2 3 4; do
        nest/bin/python benches/compare/spiking_nest.py pd14 0.1 4 $s nest$s.npz
        betz simulate --model pd14 --scale 0.1 --seed $s --settle 0 --seconds 4.1 --out betz$s.npz
    done
    nest/bin/python benches/compare/spiking_statistics.py nest?.npz -- betz?.npz

For each population: mean CV of the intervals of neurons with 3 spikes or more, mean correlation of 200 neurons' counts in bins of
5 ms, and the mean Kolmogorov-Smirnov distance of each distribution over all pairs of NEST's seeds, and over all pairs of a seed of
Betz and one of NEST, with the standard deviation over the pairs.
"""

import sys
from itertools import combinations, product

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


apart = sys.argv.index("--")
nest = [read(path) for path in sys.argv[1:apart]]
betz = [read(path, nest[0][2]) for path in sys.argv[apart + 1 :]]
nest, betz = ([list(populations(*data)) for data in runs] for runs in (nest, betz))
print("| population | mean CV: NEST, Betz | KS of CV: NEST-NEST, Betz-NEST | mean r: NEST, Betz | KS of r: NEST-NEST, Betz-NEST |")
print("|---|---|---|---|---|")
nearer, all_distances = 0, [[], []]
for p, name in enumerate(NAMES):
    words = []
    for k, digits in ((0, 3), (1, 4)):
        of = lambda runs: [run[p][k] for run in runs]
        means = [np.array([x.mean() for x in of(runs)]) for runs in (nest, betz)]
        words.append(", ".join(f"{m.mean():.{digits}f} ± {m.std():.{digits}f}" for m in means))
        within = [distance(a, b) for a, b in combinations(of(nest), 2)]
        between = [distance(a, b) for a, b in product(of(betz), of(nest))]
        words.append(", ".join(f"{np.mean(d):.3f} ± {np.std(d):.3f}" for d in (within, between)))
        nearer += np.mean(between) <= np.mean(within)
        all_distances[0].append(np.mean(within))
        all_distances[1].append(np.mean(between))
    print(f"| {name} | " + " | ".join(words) + " |")
within, between = (np.mean(d) for d in all_distances)
print(f"\nBetz is as near on the mean in {nearer} of 16; mean distance {within:.4f} within NEST, {between:.4f} from Betz to NEST")
