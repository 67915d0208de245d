#!/usr/bin/env python3
"""Sliding-window correlation networks: Betz beside NumPy and CorALS, on the same data, cores and run.

    cargo build --release -p betz-programs --bin network
    python benches/compare/network_numpy.py target/release/network [--nodes 4000] [--peers 4]

Needs numpy; corals where it is installed (`pip install corals`, here 0.1.7). Peers, per window: `np.corrcoef` (f64)
and the edge list `nonzero(triu(|r| >= θ))`; an f32 product of z-scores, CorALS's full matrix, and the same list. They run a few of the windows, scaled to all. All on one thread;
figures are CPU seconds, least of the repeats. Checks every edge of the windows that NumPy ran.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np


def data(nodes, samples, seed=0, communities=20):
    """Nodes that follow one of 20 sources more or less, on scales and about offsets of their own."""
    g = np.random.default_rng(seed)
    sources, noise = g.standard_normal((samples, communities)), g.standard_normal((samples, nodes))
    share, of = g.uniform(0.0, 1.3, nodes), g.integers(0, communities, nodes)
    x = (share * sources[:, of] + noise) * g.lognormal(0, 1, nodes) + g.normal(0, 50, nodes)
    return x.astype(np.float32)


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def corrcoef(window, threshold):
    r = np.corrcoef(window, rowvar=False)
    i, j = np.nonzero(np.triu(np.abs(r) >= threshold, 1))
    return i, j, r[i, j]


def product(window, threshold):
    z = window - window.mean(0)
    z /= np.sqrt((z * z).sum(0))
    r = z.T @ z
    i, j = np.nonzero(np.triu(np.abs(r) >= threshold, 1))
    return i, j, r[i, j]


try:
    from corals.correlation.full.default import cor_full
except ImportError:
    cor_full = None


def corals(window, threshold):
    r = np.asarray(cor_full(window))
    i, j = np.nonzero(np.triu(np.abs(r) >= threshold, 1))
    return i, j, r[i, j]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--peers", type=int, default=4, help="windows that the peers run")
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    print(f"W {options.length}, step {options.step}, {options.windows} windows; CPU seconds of one thread\n")
    print("| nodes | edges | without edges | corrcoef + edges | f32 product + edges | CorALS + edges | ratios | edges / none | wrong |")
    print("|---|---|---|---|---|---|---|---|---|")
    wrong_in_all = 0
    for nodes in options.nodes:
        x = data(nodes, options.length + (options.windows - 1) * options.step)
        with tempfile.TemporaryDirectory() as folder:
            x.tofile(f"{folder}/x")

            def betz(threshold, *more):
                command = [options.binary, f"{folder}/x", nodes, options.length, options.step, threshold]
                command += ["--repeats", options.repeats, *more]
                return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)

            seconds, wrong = {}, 0
            chosen = np.linspace(0, options.windows - 1, options.peers).astype(int)
            # Beside the peers, not before them: what else the machine does weighs on all alike.
            before_peers = [betz(options.threshold), betz(0.97)]
            peers = [("corrcoef", corrcoef), ("product", product)] + ([("corals", corals)] if cor_full else [])
            for name, peer in peers:
                times = []
                for k in chosen:
                    window = x[k * options.step : k * options.step + options.length]
                    if name != "product":
                        window = window.astype(np.float64)
                    before = cpu()
                    found = peer(window, options.threshold)
                    times.append(cpu() - before)
                    if name == "corrcoef":
                        seconds.setdefault("found", {})[int(k)] = found
                seconds[name] = min(times) * options.windows
            ours = betz(options.threshold, "--edges", f"{folder}/edges")
            none = betz(0.97)
            ours["cpu"] = min(ours["cpu"], before_peers[0]["cpu"])
            none["cpu"] = min(none["cpu"], before_peers[1]["cpu"])
            edges = np.fromfile(f"{folder}/edges", [("k", "<u4"), ("i", "<u4"), ("j", "<u4"), ("r", "<f4")])
            error = 0.0
            for k, (i, j, r) in seconds["found"].items():
                e = edges[edges["k"] == k]
                same = len(e) == len(i) and (e["i"] == i).all() and (e["j"] == j).all()
                if same:
                    error = max(error, float(np.abs(e["r"] - r).max(initial=0.0)))
                else:
                    pairs = set(zip(i.tolist(), j.tolist())) ^ set(zip(e["i"].tolist(), e["j"].tolist()))
                    wrong += len(pairs)
        wrong_in_all += wrong
        mine = ours["cpu"]
        with_corals = f"{seconds['corals']:.2f}" if cor_full else "not installed"
        ratios = ", ".join(f"{seconds[name] / mine:.0f}" for name, _ in peers)
        print(
            f"| {nodes} | {mine:.3f} ({ours['density'] * 100:.2f} %, error {error:.0e}) | {none['cpu']:.3f} "
            f"({none['edges']} edges) | {seconds['corrcoef']:.2f} | {seconds['product']:.2f} | {with_corals} "
            f"| {ratios} × | {mine / none['cpu']:.2f} | {wrong} |",
            flush=True,
        )
    print(f"\nload average {os.getloadavg()[0]:.1f}; NumPy {np.__version__}")
    sys.exit(wrong_in_all > 0)


if __name__ == "__main__":
    main()
