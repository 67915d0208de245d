"""Clusterless place decoding beside non_local_detector, on simulated tetrodes with a known truth.

python benches/compare/clusterless.py BETZ [--tetrodes N] [--cells N] [--train SECONDS] [--test SECONDS] [--step SECONDS] [--peer]
Place cells lie along a track of 200 cm that is run to and fro. Each tetrode hears several cells, whose amplitudes on its four
wires differ. BETZ is the command line. Prints the median distance on the test part, and wall seconds of training and decoding.
Needs numpy; --peer needs non_local_detector (its causal posterior is scored; acausal beside it).
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

TICK = 1e-4
LENGTH = 200.0


def simulate(options):
    rng = np.random.default_rng(options.seed)
    seconds = options.train + options.test
    ticks = int(seconds / 1e-3)
    at = (np.arange(ticks) + 0.5) * 1e-3
    # Runs to and fro, each with a speed of its own.
    turns = np.concatenate([[0.0], np.cumsum(rng.uniform(5.0, 11.0, int(seconds / 5) + 2))])
    ends = np.arange(len(turns)) % 2 * LENGTH
    x = np.interp(at, turns, ends)
    centres = rng.uniform(0, LENGTH, (options.tetrodes, options.cells))
    amplitudes = rng.uniform(60, 260, (options.tetrodes, options.cells, 4))
    times, channels, features = [], [], []
    for t in range(options.tetrodes):
        for c in range(options.cells):
            rate = 0.1 + options.peak * np.exp(-0.5 * ((x - centres[t, c]) / 12.0) ** 2)
            hits = np.flatnonzero(rng.random(ticks) < rate * 1e-3)
            times.append(at[hits] + rng.uniform(-5e-4, 5e-4, len(hits)))
            channels.append(np.full(len(hits), t))
            features.append(amplitudes[t, c] + rng.normal(0, 12.0, (len(hits), 4)))
    times, channels, features = (np.concatenate(part) for part in (times, channels, features))
    order = np.argsort(times, kind="stable")
    return times[order], channels[order], features[order].astype(np.float32), at[::20], x[::20]


def write(path, times, channels, features, at, x, tetrodes):
    np.savez(
        path,
        spike_ticks=np.maximum((times / TICK).astype(np.int64), 0),
        spike_channels=channels.astype(np.uint16),
        spike_features=features,
        tick_seconds=TICK,
        channel_names=np.array([f"tetrode{t}" for t in range(tetrodes)]),
        behavior=x[:, None].astype(np.float32),
        behavior_times=at,
        behavior_names=np.array(["x"]),
        behavior_units=np.array(["cm"]),
    )


def betz(program, *args):
    begun = time.time()
    done = subprocess.run([program, *args, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout), time.time() - begun


def peer(options, times, channels, features, at, x):
    from non_local_detector import ClusterlessDecoder, Environment

    decoder = ClusterlessDecoder(
        environments=Environment(environment_name="", place_bin_size=LENGTH / 28),
        sampling_frequency=1 / options.step,
        clusterless_algorithm_params={"waveform_std": 24.0, "position_std": 6.0, "block_size": 10_000},
    )
    split = [(times[channels == t], features[channels == t]) for t in range(options.tetrodes)]
    before = [(s[s < options.train], f[s < options.train]) for s, f in split]
    train = at < options.train
    begun = time.time()
    decoder.fit(at[train], x[train, None], [s for s, _ in before], [f for _, f in before])
    fitted = time.time() - begun
    # Its bins are centred on these times.
    bins = np.arange(options.train + options.step, options.train + options.test - options.step, options.step)
    begun = time.time()
    found = decoder.predict([s for s, _ in split], [f for _, f in split], bins)
    decoded = time.time() - begun
    truth = np.interp(bins, at, x)
    for name in ("causal_posterior", "acausal_posterior"):
        if name not in found:
            continue
        p = found[name].squeeze()
        p = p.unstack("state_bins") if "state_bins" in p.dims else p
        place = next(d for d in p.dims if "position" in d)
        p = p.sum([d for d in p.dims if d not in ("time", place)]).transpose("time", place)
        values = np.nan_to_num(p.values)
        mean = (values * p[place].values).sum(1) / values.sum(1)
        error = np.median(np.abs(mean - truth))
        print(f"non_local_detector {name:<18} {error:6.2f} cm  fit {fitted:6.2f} s  decode {decoded:6.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("betz")
    parser.add_argument("--tetrodes", type=int, default=8)
    parser.add_argument("--cells", type=int, default=6)
    parser.add_argument("--peak", type=float, default=20.0)
    parser.add_argument("--train", type=float, default=300.0)
    parser.add_argument("--test", type=float, default=60.0)
    parser.add_argument("--step", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    times, channels, features, at, x = simulate(options)
    print(f"{options.tetrodes} tetrodes, {len(times)} spikes, steps of {options.step} s")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        recording, model, plain = (str(folder / name) for name in ("tetrodes.npz", "marks.betz", "rates.betz"))
        write(recording, times, channels, features, at, x, options.tetrodes)
        until, since = ["--until", str(options.train)], ["--from", str(options.train)]
        step = ["--step", str(options.step)]
        place = ["train", recording, "--decoder", "place", *until, *step]
        _, fitted = betz(options.betz, *place, "--marks", "--out", model)
        found, _ = betz(options.betz, "evaluate", model, recording, *since)
        each = 1e6 * found["decode_seconds"] / found["steps"]
        print(
            f"betz train --marks              {found['median_error']:6.2f} cm  train {fitted:6.2f} s  "
            f"decode {found['decode_seconds']:6.3f} s, {each:.1f} us per step",
            flush=True,
        )
        found, _ = betz(options.betz, "stream", model, recording, *since)
        took = found["latency_us"]
        print(
            f"betz stream                     {found['median_error']:6.2f} cm  step: p50 {took['p50']:.1f}, p99.9 {took['p99_9']:.1f}, "
            f"longest {took['max']:.1f} us; at most {found['most_spikes']} spikes in one",
            flush=True,
        )
        _, fitted = betz(options.betz, *place, "--out", plain)
        found, _ = betz(options.betz, "evaluate", plain, recording, *since)
        print(f"betz without features           {found['median_error']:6.2f} cm  train {fitted:6.2f} s", flush=True)
    if options.peer:
        peer(options, times, channels, features, at, x)


if __name__ == "__main__":
    main()
