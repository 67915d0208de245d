"""Scores Betz on a data set of the FALCON benchmark, by the benchmark's own local evaluator.

    python score.py m2 DATA

`DATA/m2/held_in_calib` holds the files to train on, `DATA/m2/minival` those that are evaluated, as they come from the DANDI
archive. docs/benchmarks.md says what to download. The packages falcon-challenge and betz have to be installed.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

TASKS = ("h1", "m1", "m2")


def arguments(given=None):
    parser = argparse.ArgumentParser(description="Score Betz by FALCON's local evaluator.")
    parser.add_argument("task", choices=TASKS, help="data set of the benchmark")
    parser.add_argument("data", type=pathlib.Path, help="folder with TASK/held_in_calib and TASK/minival")
    parser.add_argument("--calibration", type=pathlib.Path, help="folder of the files to train on (default: DATA/TASK/held_in_calib)")
    parser.add_argument("--kind", default="auto", help="decoder kind (default: auto, a blend)")
    parser.add_argument("--bank", default="auto", help="filters as SECONDS:ORDER, or a name from betz.presets() (default: auto)")
    parser.add_argument("--noise", type=float, help="neural noise that the ridge follows from (default: the ridge by cross-validation)")
    parser.add_argument("--delay", type=float, default=0.0, help="delay of the estimates in seconds (default: 0)")
    parser.add_argument("--batch", type=int, default=1, help="files that are decoded side by side (default: 1)")
    return parser.parse_args(given)


def bank(text):
    """The filters of "0.05:0 0.2:0", or the name of a preset."""
    if ":" not in text:
        return text
    pairs = [filter.split(":") for filter in text.split()]
    return [(float(seconds), int(order)) for seconds, order in pairs]


def files_of(folder, what):
    """NWB files in `folder` and in the folders of its subjects."""
    files = sorted(folder.rglob("*.nwb"))
    if not files:
        raise SystemExit(f"{folder}: expected NWB files {what}, found none; docs/benchmarks.md says what to download")
    return files


def score(task, data, calibration=None, batch=1, **parameters):
    """Trains on the calibration files, and returns the result of the evaluator."""
    from falcon_challenge.config import FalconConfig, FalconTask
    from falcon_challenge.evaluator import FalconEvaluator

    import betz

    data = pathlib.Path(data).resolve()
    training = files_of(calibration or data / task / "held_in_calib", "to train on")
    files_of(data / task / "minival", "to evaluate")
    config = FalconConfig(task=FalconTask[task])
    decoder = betz.FalconDecoder.trained(config, training, batch_size=batch, **parameters)
    # The evaluator reads its folder from the environment, and leaves its own files where it runs.
    before, os.environ["EVAL_DATA_PATH"] = os.environ.get("EVAL_DATA_PATH"), str(data)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            evaluator = FalconEvaluator(eval_remote=False, split=task, dataloader_workers=0)
            return evaluator.evaluate(decoder, phase="minival")
        finally:
            os.chdir(here)
            if before is None:
                del os.environ["EVAL_DATA_PATH"]
            else:
                os.environ["EVAL_DATA_PATH"] = before


def main(given=None):
    asked = arguments(given)
    result = score(
        asked.task, asked.data, asked.calibration, asked.batch,
        kind=asked.kind, bank=bank(asked.bank), noise=asked.noise, delay_seconds=asked.delay,
    )
    print(json.dumps(result, indent=2, default=str))


if __name__ == "__main__":
    sys.exit(main())
