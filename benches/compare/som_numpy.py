"""Batch training of a map in NumPy and Somoclu, and MiniSom's online training, on the data of the record.

    pip install numpy minisom==2.3.6 wheel setuptools scipy matplotlib
    pip install --no-build-isolation somoclu==1.7.6
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benches/compare/som_numpy.py [--minisom 60] [--somoclu 1]

16,000 samples of 300 numbers, a map of 90 x 70: seconds of an epoch. MiniSom's are those of so many samples, times
16,000 by that; Somoclu's are of so many epochs over every eighth sample, times 8.
"""

import argparse
import time

import numpy as np

SAMPLES, DIMS, ROWS, COLUMNS = 16_000, 300, 90, 70


def epoch(x, w, squared_distance, radius):
    scores = x @ w.T
    scores -= 0.5 * (w * w).sum(1)
    winners = scores.argmax(1)
    sums = np.zeros_like(w)
    np.add.at(sums, winners, x)
    counts = np.bincount(winners, minlength=len(w)).astype(np.float32)
    near = np.exp(-squared_distance / (2 * radius * radius)).astype(np.float32)
    mass = near @ counts
    live = mass > 1e-9
    w[live] = (near @ sums)[live] / mass[live, None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minisom", type=int, default=60)
    parser.add_argument("--somoclu", type=int, default=0)
    args = parser.parse_args()
    random = np.random.default_rng(1)
    heaps = 3 * (random.random((20, DIMS)) - 0.5)
    x = (heaps[np.arange(SAMPLES) * 7 % 20] + random.random((SAMPLES, DIMS)) - 0.5).astype(np.float32)
    w = (0.1 * random.standard_normal((ROWS * COLUMNS, DIMS))).astype(np.float32)
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    squared = ((row[:, None] - row) ** 2 + (column[:, None] - column) ** 2).astype(np.float32)
    seconds = []
    for e in range(6):
        started = time.perf_counter()
        epoch(x, w, squared, 30.0 * (0.6 / 30.0) ** (e / 5))
        seconds.append(time.perf_counter() - started)
    print(f"NumPy batch: {sorted(seconds)[3]:.3f} s an epoch (least {min(seconds):.3f})")
    if args.minisom:
        from minisom import MiniSom

        som = MiniSom(ROWS, COLUMNS, DIMS, sigma=5.0, learning_rate=0.05)
        some = x[: args.minisom]
        started = time.perf_counter()
        som.train(some, len(some))
        each = (time.perf_counter() - started) / len(some)
        print(f"MiniSom: {each * SAMPLES:.1f} s an epoch ({len(some)} samples)")
    if args.somoclu:
        import somoclu

        som = somoclu.Somoclu(COLUMNS, ROWS)
        some = np.ascontiguousarray(x[::8])
        started = time.perf_counter()
        som.train(some, epochs=args.somoclu)
        each = (time.perf_counter() - started) / args.somoclu
        print(f"Somoclu: {each * 8:.1f} s an epoch ({len(some)} samples, {args.somoclu} epochs)")


main()
