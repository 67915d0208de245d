"""The same counts with PyTorch: one `searchsorted` an edge, then a greedy scan on the host.

On a machine with a GPU, with what `cargo bench -p betz --bench episode -- device --device cuda --save
FOLDER` left: `python3 episode_torch.py FOLDER`. Prints warm medians; checks every count.
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

folder = Path(sys.argv[1])
load = lambda name: np.fromfile(folder / f"{name}.i64", dtype=np.int64)
offsets, ticks, counts = load("offsets"), load("ticks"), load("counts")
low, high = (int(v) for v in load("interval"))
episodes = load("symbols").reshape(len(counts), -1)
device = torch.device("cuda")


def copy():
    whole = torch.from_numpy(ticks).to(device)
    return [whole[a:b] for a, b in zip(offsets[:-1], offsets[1:])]


def count(lists, symbols):
    ends = starts = lists[symbols[0]]
    for symbol in symbols[1:]:
        if len(ends) == 0:
            return 0
        later = lists[symbol]
        before = torch.searchsorted(ends, later - low) - 1
        reached = (before >= 0) & (later - ends[before.clamp(min=0)] <= high)
        starts, ends = starts[before[reached]], later[reached]
    taken, last = 0, -1
    for end, start in zip(ends.tolist(), starts.tolist()):
        if start > last:
            taken, last = taken + 1, end
    return taken


def median(runs, work):
    work(), work()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        result = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3, result


lists = copy()
there, found = median(11, lambda: [count(lists, e) for e in episodes])
assert found == counts.tolist(), (found, counts.tolist())
one, _ = median(11, lambda: count(lists, episodes[0]))
upload, _ = median(11, copy)
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {len(ticks)} events")
print(f"{len(episodes)} episodes of {episodes.shape[1]}, events there: {there:.2f} ms")
print(f"one of them: {one:.2f} ms; copying the events: {upload:.2f} ms")
