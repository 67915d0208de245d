"""Normal equations and solve: Betz beside NumPy and SciPy, on the same spikes, cores and run.

    python benches/compare/gram_numpy.py [--rates 20 100] [--channels 1000] [--seconds 100] ...

Needs numpy, scipy and a release build (`cargo build --release -p betz-programs --bin gram`, done here unless
--no-build). Prints a table in Markdown; ratios are NumPy's seconds over Betz's.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

import numpy as np
import scipy.fft
import scipy.linalg

TAU, ORDER = 0.01, 1


def betz(binary, options, path, threads):
    command = [binary, "--path", path]
    for name in ("channels", "seconds", "step", "rate", "repeats"):
        command += [f"--{name}", str(options[name])]
    if "spikes" in options:
        command += ["--spikes", options["spikes"]]
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def numpy_side(path, channels, steps, step, threads):
    """FFT filtering, A·Aᵀ, A·xᵀ and the solve, each timed once; all in float32 but the solve."""
    with open(path, "rb") as file:
        count = int(np.fromfile(file, "<u8", 1)[0])
        ticks = np.fromfile(file, "<u4", count)
        channel = np.fromfile(file, "<u4", count)
        x = np.fromfile(file, "<f4").reshape(steps, 2)
    decay = np.exp(-step / TAU)
    taps = np.arange(int(40 * TAU / step))
    impulse = taps**ORDER * decay**taps
    impulse = (impulse / impulse.sum()).astype(np.float32)
    length = scipy.fft.next_fast_len(steps + len(impulse), real=True)
    spectrum = scipy.fft.rfft(impulse, length)
    responses = np.zeros((channels, steps), np.float32)
    np.add.at(responses, (channel, ticks), 1)

    start = time.perf_counter()
    block = 50
    for first in range(0, channels, block):
        rows = responses[first : first + block]
        spectra = scipy.fft.rfft(rows, length, axis=1, workers=threads)
        spectra *= spectrum
        rows[:] = scipy.fft.irfft(spectra, length, axis=1, workers=threads)[:, :steps]
    filtered = time.perf_counter()
    gram = responses @ responses.T
    upsilon = responses @ x
    mean = responses.mean(axis=1, dtype=np.float64)
    multiplied = time.perf_counter()
    centred = gram - steps * np.outer(mean, mean)
    centred[np.diag_indices(channels)] += 1e-3 * gram[0, 0]
    right = upsilon - steps * np.outer(mean, x.mean(axis=0, dtype=np.float64))
    scipy.linalg.cho_solve(scipy.linalg.cho_factor(centred), right)
    solved = time.perf_counter()
    return filtered - start, multiplied - filtered, solved - multiplied


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 100])
    parser.add_argument("--channels", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--step", type=float, default=0.00025)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dense", action="store_true", help="time Betz's dense path too")
    parser.add_argument("--no-build", action="store_true")
    arguments = parser.parse_args()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    if not arguments.no_build:
        subprocess.run(["cargo", "build", "--release", "-p", "betz-programs", "--bin", "gram"], check=True, cwd=root)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target"))
    binary = os.path.join(target, "release", "gram")
    steps = round(arguments.seconds / arguments.step)
    print(f"{arguments.channels} channels, {steps} steps of {arguments.step * 1e3} ms, order {ORDER}, {arguments.threads} threads\n")
    print("| spikes/s a channel | | filter, s | Γ (and Υ), s | solve, s | in all, s | peak memory above input, MB | NumPy / this |")
    print("|---|---|---|---|---|---|---|---|")
    for rate in arguments.rates:
        with tempfile.TemporaryDirectory() as folder:
            options = dict(vars(arguments), rate=rate, spikes=os.path.join(folder, "spikes"))
            event = betz(binary, options, "event", arguments.threads)
            del options["spikes"]
            filtered, multiplied, solved = numpy_side(
                os.path.join(folder, "spikes"), arguments.channels, steps, arguments.step, arguments.threads
            )
        total = filtered + multiplied + solved
        responses = arguments.channels * steps * 4 / 2**20
        print(f"| {rate:g} | NumPy {np.__version__}, SciPy | {filtered:.3f} | {multiplied:.3f} | {solved:.3f} | {total:.3f} | at least {responses:.0f} | |")
        paths = [event]
        if arguments.dense:
            options["repeats"] = 1
            paths.append(betz(binary, options, "dense", arguments.threads))
        for run in paths:
            seconds = run["gram_seconds"] + run["solve_seconds"]
            memory = run["memory_peak_mb"] - run["memory_before_mb"]
            print(
                f"| {rate:g} | Betz, {run['path']} | | {run['gram_seconds']:.3f} | {run['solve_seconds']:.3f} | {seconds:.3f} | {memory:.0f} | {total / seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
