"""Scores Betz on a data set of the Neural Latents Benchmark 2021, by the benchmark's own evaluator.

    python score.py mc_maze train.h5 eval.h5 target.h5 --out submission.h5

The three files are the tensors that nlb_tools makes of the benchmark's NWB files: `make_train_input_tensors`,
`make_eval_input_tensors` and `make_eval_target_tensors`. docs/benchmarks.md says what to download and to run. Betz predicts the rates
of the held-out neurons from the held-in ones, and smooths the latter (co-smoothing); the package nlb-tools scores them.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

# The least rate, as a part of the neuron's mean: a rate of 0 would forbid a spike.
_FLOOR = 0.05


def arguments(given=None):
    parser = argparse.ArgumentParser(description="Score Betz by the evaluator of the Neural Latents Benchmark.")
    parser.add_argument("dataset", help="mc_maze, mc_rtt, area2_bump, mc_maze_large, mc_maze_medium or mc_maze_small")
    parser.add_argument("train", type=pathlib.Path, help="file of make_train_input_tensors")
    parser.add_argument("eval", type=pathlib.Path, help="file of make_eval_input_tensors")
    parser.add_argument("target", type=pathlib.Path, help="file of make_eval_target_tensors")
    parser.add_argument("--bin", type=int, choices=(5, 20), default=5, help="milliseconds of a bin (default: 5)")
    parser.add_argument("--kind", default="auto", help="decoder kind (default: auto, a blend)")
    parser.add_argument("--delay", type=float, default=0.05, help="seconds of spikes after a bin that its rate may use (default: 0.05)")
    parser.add_argument("--bank", default="0.05:0", help="filters as SECONDS:ORDER, or a name from betz.presets() (default: 0.05:0)")
    parser.add_argument("--out", type=pathlib.Path, help="write the submission to this .h5 file")
    return parser.parse_args(given)


def bank(text):
    """The filters of "0.05:0 0.2:0", or the name of a preset."""
    if ":" not in text:
        return text
    pairs = [filter.split(":") for filter in text.split()]
    return [(float(seconds), int(order)) for seconds, order in pairs]


def read(path, names):
    """Arrays (trials, bins, neurons) of a file of tensors."""
    import h5py

    with h5py.File(path, "r") as file:
        missing = [name for name in names if name not in file]
        if missing:
            raise SystemExit(f"{path}: expected {', '.join(missing)}, found {', '.join(file) or 'nothing'}; docs/benchmarks.md says how to make it")
        return [np.nan_to_num(file[name][()]) for name in names]


def rows(tensor):
    """(trials × bins, neurons), and the trial of each row."""
    trials, bins, neurons = tensor.shape
    return tensor.reshape(-1, neurons), np.repeat(np.arange(trials), bins)


def earlier(estimates, trials, bins, steps):
    """Estimates at the bins that they are of: `steps` earlier; the last bins of a trial keep its last estimate."""
    of = estimates.reshape(trials, bins, -1)
    at = np.minimum(np.arange(bins) + steps, bins - 1)
    return of[:, at]


def rates(train_heldin, train_heldout, eval_heldin, bin_seconds, kind="linear", delay=0.05, **parameters):
    """The submission of one data set: rates per bin, (trials, bins, neurons), by the evaluator's names.

    The decoder's estimates are least squares, of any sign; isotonic regression on the training trials makes rates of them.
    """
    from sklearn.isotonic import IsotonicRegression

    import betz

    X, trials = rows(train_heldin)
    X_eval, trials_eval = rows(eval_heldin)
    both = np.concatenate([train_heldin, train_heldout], axis=2)
    y, _ = rows(both)
    steps = round(delay / bin_seconds)
    parameters = dict(bank=[(0.05, 0)]) | parameters
    decoder = betz.Decoder(kind, step_seconds=bin_seconds, delay_seconds=steps * bin_seconds, **parameters)
    decoder.fit(X.astype(np.uint8), y.astype(float), trials=trials)
    floor = np.maximum(_FLOOR * y.mean(axis=0), 1e-6)
    found, scales, heldin = {}, [], train_heldin.shape[2]
    for name, of, labels, shape in (("train", X, trials, train_heldin.shape), ("eval", X_eval, trials_eval, eval_heldin.shape)):
        estimates = earlier(decoder.predict(of.astype(np.uint8), trials=labels), *shape[:2], steps).reshape(len(of), -1)
        if name == "train":
            for neuron, least in enumerate(floor):
                scale = IsotonicRegression(y_min=least, out_of_bounds="clip")
                scales.append(scale.fit(estimates[:, neuron], y[:, neuron]))
        of_rates = np.column_stack([scale.predict(column) for scale, column in zip(scales, estimates.T)]).reshape(*shape[:2], -1)
        found[f"{name}_rates_heldin"], found[f"{name}_rates_heldout"] = of_rates[..., :heldin], of_rates[..., heldin:]
    return found


def main(given=None):
    from nlb_tools.evaluation import evaluate

    asked = arguments(given)
    train = read(asked.train, ["train_spikes_heldin", "train_spikes_heldout"])
    (heldin,) = read(asked.eval, ["eval_spikes_heldin"])
    name = asked.dataset + ("" if asked.bin == 5 else "_20")
    submission = {name: rates(*train, heldin, asked.bin / 1000, asked.kind, asked.delay, bank=bank(asked.bank))}
    if asked.out:
        import h5py

        with h5py.File(asked.out, "w") as file:
            for key, values in submission[name].items():
                file.create_dataset(f"{name}/{key}", data=values, compression="gzip")
    print(json.dumps(evaluate(str(asked.target), submission), indent=2))


if __name__ == "__main__":
    sys.exit(main())
