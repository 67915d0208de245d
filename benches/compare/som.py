"""Seconds per iteration of Kohonen's online rule by the size of the map (figure 3.3 of Galbraith 2010): Betz on the CPU and on a
GPU, NumPy, and MiniSom, in one run.

    pip install target/wheels/betz-*.whl scikit-learn minisom==2.3.6
    OPENBLAS_NUM_THREADS=1 python benches/compare/som.py [--device cuda] [--features 3] [--sides 5 16 32 64] [--seconds 1]

An iteration presents one sample of a few numbers: it finds the nearest node, and moves the 5 x 5 nodes around it by 0.05.
MiniSom has no window of this kind: its Gaussian of sigma 1 has about as many nodes and goes over all. NumPy's rule runs in float32,
as Betz does. All but MiniSom begin with the same weights, and the largest difference of their weights afterwards is printed.
Without --device, the column of the GPU is empty.
"""

import argparse
import statistics
import time

import numpy as np

RATE, RADIUS = 0.05, 2


def samples(count, features, seed=1):
    """Colours of a made picture: smooth courses and grain."""
    rng = np.random.default_rng(seed)
    course = np.sin(np.linspace(0, 40, count)[:, None] * np.arange(1, features + 1))
    return (0.5 + 0.4 * course + 0.1 * rng.random((count, features))).astype(np.float32)


def numpy_rule(weights, data):
    """The weights, (rows, columns, features), after all of `data`."""
    rows, columns, features = weights.shape
    flat = weights.reshape(-1, features)
    for x in data:
        difference = flat - x
        row, column = divmod(int(np.einsum("nf,nf->n", difference, difference).argmin()), columns)
        near = weights[max(row - RADIUS, 0) : row + RADIUS + 1, max(column - RADIUS, 0) : column + RADIUS + 1]
        near += np.float32(RATE) * (x - near)
    return weights


def per_sample(train, data, seconds):
    """Median seconds per sample of three runs of `train`, each of about `seconds`."""
    count = 16
    while True:
        begun = time.perf_counter()
        train(data[:count])
        took = time.perf_counter() - begun
        if took > seconds / 4 or count == len(data):
            break
        count = min(4 * count, len(data))
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        train(data[:count])
        times.append((time.perf_counter() - begun) / count)
    return statistics.median(times)


class OfBetz:
    """Betz's rule. `partial_fit` also measures the map, so passes of `fit` tell its time: many less one."""

    def __init__(self, side, device):
        self.options = dict(map=(side, side), online=True, neighbourhood="window", radius=RADIUS, rate=RATE, device=device)

    def fit(self, data, passes):
        from betz import SelfOrganizingMap

        begun = time.perf_counter()
        som = SelfOrganizingMap(epochs=passes, **self.options).fit(data)
        return som, time.perf_counter() - begun

    def per_sample(self, data, seconds):
        count, passes = min(len(data), 4096), 2
        data = data[:count]
        _, once = self.fit(data, 1)
        while True:
            som, took = self.fit(data, passes)
            # The fits' other work, such as the map's quality, also varies by a share of itself.
            if took - once > max(seconds, once) or passes > 1 << 14:
                break
            passes *= 4
        if self.options["device"] != som.training_["device"].split(":")[0]:
            raise SystemExit(f"expected {self.options['device']}, ran on {som.training_['device']}: {som.training_['fallback']}")
        times = [(self.fit(data, passes)[1] - self.fit(data, 1)[1]) / (count * (passes - 1)) for _ in range(3)]
        return statistics.median(times)


def of_minisom(side, data, seconds):
    from minisom import MiniSom

    som = MiniSom(side, side, data.shape[1], sigma=1.0, learning_rate=RATE, random_seed=1)
    return per_sample(lambda part: som.train(part, len(part)), data, seconds)


def difference(side, data, device):
    """Largest difference between the weights of Betz and of NumPy's rule after a pass from Betz's start."""
    from betz import SelfOrganizingMap

    options = OfBetz(side, device).options
    som = SelfOrganizingMap(epochs=1, **options).partial_fit(data)
    expected = numpy_rule(som.weights_.copy(), data)
    return float(np.abs(som.partial_fit(data).weights_ - expected).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="GPU of Betz's second column, such as cuda")
    parser.add_argument("--features", type=int, default=3)
    parser.add_argument("--sides", type=int, nargs="+", default=[5, 16, 32, 64, 128, 256, 512])
    parser.add_argument("--seconds", type=float, default=1.0, help="about so long a run")
    args = parser.parse_args()
    data = samples(1 << 16, args.features)
    print(f"microseconds per iteration, medians of three, {args.features} numbers per sample")
    print("| nodes | Betz, CPU | Betz, GPU | NumPy | MiniSom | weights differ from NumPy's by |\n|---|---|---|---|---|---|")
    for side in args.sides:
        start = np.random.default_rng(2).random((side, side, args.features), np.float32)
        devices = ["cpu"] + ([args.device] if args.device else [])
        betz = [OfBetz(side, device).per_sample(data, args.seconds) for device in devices]
        by_numpy = per_sample(lambda part: numpy_rule(start, part), data, args.seconds)
        by_minisom = of_minisom(side, data, args.seconds)
        apart = max(difference(side, data[:500], device) for device in devices)
        gpu = f"{1e6 * betz[1]:.2f}" if args.device else "–"
        print(f"| {side} x {side} | {1e6 * betz[0]:.2f} | {gpu} | {1e6 * by_numpy:.1f} | {1e6 * by_minisom:.1f} | {apart:.1e} |", flush=True)


main()
