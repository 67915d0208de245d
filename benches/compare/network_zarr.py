#!/usr/bin/env python3
"""Networks as Zarr directories, read by another program: the arrays of `net.zarr` against those of `net.npz`.

    cargo build -p betz-cli
    python benches/compare/network_zarr.py target/debug/betz [INPUT.npz --signal NAME]

Needs numpy and zarr (`pip install zarr`, here 3.1.5). Without INPUT a signal is made, large enough for several
chunks. Prints a row an array; fails where one differs, is missing, or is more.
"""

import argparse
import json
import subprocess
import sys
import tempfile

import numpy as np
import zarr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("betz")
    parser.add_argument("input", nargs="?")
    parser.add_argument("--signal", default="signal")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        source = options.input
        if source is None:
            g = np.random.default_rng(5)
            common = g.standard_normal((1200, 1))
            x = (common + g.standard_normal((1200, 400))).astype(np.float32)
            x[:, 7] = 1.0
            names = np.array([f"node {i}" for i in range(400)])
            np.savez(f"{folder}/x.npz", signal=x, sample_seconds=0.1, node_name=names, node_xy=g.random((400, 2)))
            source = f"{folder}/x.npz"
        common = [options.betz, "network", "compute", source, "--signal", options.signal, "--json"]
        print("| measure | array | dtype, shape | chunks | |")
        print("|---|---|---|---|---|")
        for more in (["pearson", "--full"], ["lagged", "--lags", "2", "--compact"]):
            window = ["--window", "100", "--step", "20", "--sample-seconds", "0.1"]
            for end in ("npz", "zarr"):
                out = ["--out", f"{folder}/{more[0]}.{end}", "--threshold", "0.3", "--measure", *more]
                subprocess.run(common + window + out, check=True, capture_output=True)
            npz = np.load(f"{folder}/{more[0]}.npz")
            group = zarr.open_group(f"{folder}/{more[0]}.zarr", mode="r")
            texts = {name for name in npz.files if npz[name].dtype.kind == "U"}
            for name in sorted(set(npz.files) | set(group.array_keys()) | set(group.attrs)):
                if name in texts:
                    expected = json.loads(str(npz[name])) if name == "meta" else npz[name].tolist()
                    same, what, chunks = group.attrs.get(name) == expected, "text, an attribute", ""
                elif name in npz.files and name in group:
                    a, b = npz[name], group[name]
                    same = a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b[:], equal_nan=a.dtype.kind == "f")
                    what, chunks = f"{b.dtype} {b.shape}", str(b.chunks)
                else:
                    same, what, chunks = False, "on one side only", ""
                wrong += not same
                print(f"| {more[0]} | {name} | {what} | {chunks} | {'same' if same else 'DIFFERENT'} |")
    print(f"\nzarr {zarr.__version__}, NumPy {np.__version__}: {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
