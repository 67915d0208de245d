"""`betz.FalconDecoder` in the FALCON benchmark's own local evaluator (falcon-challenge 1.0.2), on made files."""

import importlib.util
import pathlib
import sys
from datetime import datetime, timezone

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:
    sys.path.append(str(pathlib.Path(__file__).parent / "stand_in"))
falcon = pytest.importorskip("falcon_challenge", reason="falcon-challenge is not installed")
pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
pytest.importorskip("hydra", reason="hydra-core is not installed")

import betz  # noqa: E402

M1_DAYS = ["20120924", "20120926", "20120927", "20120928"]
M2_RUNS = ["2020-10-19-Run1", "2020-10-19-Run2", "2020-10-20-Run1", "2020-10-20-Run2",
           "2020-10-27-Run1", "2020-10-27-Run2", "2020-10-28-Run1"]
SECONDS = 40


def made(channels, outputs):
    """Movement, and spikes whose rates follow it."""
    rng = np.random.default_rng(channels)
    steps = SECONDS * 50
    movement = rng.standard_normal((steps, outputs))
    for step in range(1, steps):
        movement[step] = 0.95 * movement[step - 1] + np.sqrt(1 - 0.95**2) * movement[step]
    rates = np.clip(12 + movement @ (8 * rng.standard_normal((outputs, channels))), 0, 120)
    counts = rng.poisson(rates * 0.02)
    times = np.arange(steps) * 0.02
    trains = [np.sort(np.repeat(times, counts[:, k]) + 0.02 * rng.random(counts[:, k].sum())) for k in range(channels)]
    return times, movement, trains


def write(path, channels, outputs, fill):
    times, movement, trains = made(channels, outputs)
    file = pynwb.NWBFile("made", path.stem, datetime(2020, 10, 19, tzinfo=timezone.utc))
    columns = {"m1": ("gocue_time", "result", "number", "tgt_loc", "tgt_obj", "obj_id", "condition_id"), "m2": ("tgt_loc", "trial_num")}
    task = path.parent.parent.name
    for name in columns.get(task, ()):
        file.add_trial_column(name, name)
    for trial in range(SECONDS // 2 if task in columns else 0):
        values = {name: "R" if name in ("result", "tgt_obj") else float(trial) for name in columns[task]}
        file.add_trial(start_time=2.0 * trial, stop_time=2.0 * trial + 1.8, **values)
    for train in trains:
        file.add_unit(spike_times=train)
    fill(file, times, movement)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pynwb.NWBHDF5IO(str(path), "w") as io:
        io.write(file)


def series(name, data, times, **more):
    return pynwb.TimeSeries(name=name, data=data, unit="AU", timestamps=times, **more)


def m1(file, times, movement):
    emg = pynwb.behavior.BehavioralTimeSeries(name="preprocessed_emg")
    # Muscles with a tone: rectified, and silent at times.
    for k, column in enumerate(np.maximum(1 + movement, 0).T):
        emg.add_timeseries(series(f"EMG{k}", column, times))
    file.add_acquisition(emg)
    file.add_acquisition(series("eval_mask", times % 2 < 1.8, times))


def m2(file, times, movement):
    for what, data in (("vel", movement), ("pos", movement.cumsum(0) * 0.02)):
        fingers = pynwb.behavior.BehavioralTimeSeries(name=f"finger_{what}")
        for name, column in zip(("index", "mrs"), data.T):
            fingers.add_timeseries(series(f"{name}_{what}", column, times))
        file.add_acquisition(fingers)
    file.add_acquisition(series("eval_mask", times % 2 < 1.8, times))


def h1(file, times, movement):
    regular = {"unit": "AU", "rate": 0.02, "starting_time": 0.0, "offset": 0.02}  # as FALCON: the period, and the first time
    names = "tx,ty,tz,rx,g1,g2,g3"
    for name, data in (("OpenLoopKinematics", movement.cumsum(0) * 0.02), ("OpenLoopKinematicsVelocity", movement)):
        file.add_acquisition(pynwb.TimeSeries(name=name, data=data, description=names, **regular))
    for name, data in (("TrialNum", times // 4), ("eval_mask", np.ones(len(times), bool))):
        file.add_acquisition(pynwb.TimeSeries(name=name, data=data, **regular))


def h1_sessions():
    from falcon_challenge.config import H1_NEW_TO_OLD
    from falcon_challenge.evaluator import DATASET_HELDINOUT_MAP

    return [session for session, name in H1_NEW_TO_OLD.items() if name in DATASET_HELDINOUT_MAP["h1"]["held_in"]]


# All held-in sets: `evaluate` takes no fewer.
FILES = {
    "m1": (m1, [f"sub-MonkeyL-held-in-minival_ses-{day}_behavior+ecephys.nwb" for day in M1_DAYS]),
    "m2": (m2, [f"sub-MonkeyN-held-in-minival_ses-{run}_behavior+ecephys.nwb" for run in M2_RUNS]),
    "h1": (h1, [f"sub-HumanPitt-held-in-minival_ses-{session}.nwb" for session in h1_sessions()]),
}


@pytest.mark.parametrize("task", FILES)
def test_the_local_evaluator(task, tmp_path, monkeypatch):
    from falcon_challenge.config import FalconConfig, FalconTask
    from falcon_challenge.evaluator import FalconEvaluator

    config = FalconConfig(task=FalconTask[task])
    fill, names = FILES[task]
    files = [tmp_path / task / "minival" / name for name in names]
    for file in files:
        write(file, config.n_channels, config.out_dim, fill)
    decoder = betz.FalconDecoder.trained(config, files, batch_size=2, bank=[(0.05, 0), (0.2, 0)], noise=0.1)
    monkeypatch.setenv("EVAL_DATA_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    evaluator = FalconEvaluator(eval_remote=False, split=task, dataloader_workers=0)
    # The last batch is short where the files are an odd number.
    predicted, truth, masks, *_ = evaluator.predict_files(decoder, files)
    assert len(predicted) == len(files)
    for name, estimates in predicted.items():
        use = masks[name].astype(bool)
        rest = ((truth[name] - estimates)[use] ** 2).sum() / ((truth[name] - truth[name][use].mean(0))[use] ** 2).sum()
        assert 1 - rest > 0.6, (name, 1 - rest)
    result = evaluator.evaluate(decoder, phase="minival")
    assert "Held In" in str(result), result
    print(result)


def test_models_that_do_not_fit_are_refused():
    from falcon_challenge.config import FalconConfig, FalconTask

    config = FalconConfig(task=FalconTask.m2)
    counts = np.random.default_rng(0).poisson(1.0, (200, 5))
    small = betz.Decoder(step_seconds=0.02, bank=[(0.1, 0)], noise=0.1).fit(counts, counts[:, :2].astype(float))
    with pytest.raises(ValueError, match="expected 96 channels, 2 outputs and steps of 0.02 s, got 5, 2"):
        betz.FalconDecoder(config, small)
    with pytest.raises(TypeError, match="got int"):
        betz.FalconDecoder(config, 3)
