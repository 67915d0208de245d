"""The benchmarks' scripts, on made files in the benchmarks' layouts, by their own evaluators."""

import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

SCRIPTS = pathlib.Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="the benchmarks' scripts are in the repository, not in the package")


def script(name):
    spec = importlib.util.spec_from_file_location(f"betz_benchmark_{name}", SCRIPTS / name / "score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(trials=60, bins=140, heldin=20, heldout=6, seed=0):
    """Spikes of neurons that follow a velocity of two dimensions, one course per condition."""
    rng = np.random.default_rng(seed)
    t = np.arange(bins) / bins
    conditions = rng.integers(0, 4, trials)
    angle = conditions[:, None] * np.pi / 2 + 0.3 * np.sin(2 * np.pi * t)
    bump = np.exp(-((t - 0.5) ** 2) / 0.02)
    velocity = np.stack([bump * np.cos(angle), bump * np.sin(angle)], axis=2)
    tuning = rng.normal(size=(2, heldin + heldout))
    rate = np.exp(np.log(0.08) + velocity @ tuning)
    return rng.poisson(rate), velocity, conditions


def test_nlb(tmp_path, capsys):
    pytest.importorskip("nlb_tools", reason="nlb-tools is not installed")
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    spikes, velocity, conditions = made(trials=200)
    train, test = slice(0, 150), slice(150, 200)
    psth = np.stack([spikes[train][conditions[train] == k].mean(axis=0) for k in range(4)])
    with h5py.File(tmp_path / "train.h5", "w") as file:
        file["train_spikes_heldin"], file["train_spikes_heldout"] = spikes[train, :, :20], spikes[train, :, 20:]
    with h5py.File(tmp_path / "eval.h5", "w") as file:
        file["eval_spikes_heldin"] = spikes[test, :, :20]
    with h5py.File(tmp_path / "target.h5", "w") as file:
        of = file.create_group("mc_maze")
        of["eval_spikes_heldin"], of["eval_spikes_heldout"] = spikes[test, :, :20], spikes[test, :, 20:]
        of["train_behavior"], of["eval_behavior"] = velocity[train], velocity[test]
        of["psth"] = psth
        index = of.create_dataset("eval_cond_idx", (4,), dtype=h5py.vlen_dtype(np.int64))
        for k in range(4):
            index[k] = np.flatnonzero(conditions[test] == k)
    paths = [str(tmp_path / name) for name in ("train.h5", "eval.h5", "target.h5")]
    script("nlb").main(["mc_maze", *paths, "--out", str(tmp_path / "submission.h5")])
    (result,) = json.loads(capsys.readouterr().out)
    scores = result["mc_maze_split"]
    assert scores["co-bps"] > 0.05 and scores["vel R2"] > 0.6, scores
    with h5py.File(tmp_path / "submission.h5", "r") as file:
        assert file["mc_maze/eval_rates_heldout"].shape == (50, 140, 6) and (file["mc_maze/eval_rates_heldout"][()] > 0).all()
    with pytest.raises(SystemExit, match="eval.h5: expected train_spikes_heldin, train_spikes_heldout, found eval_spikes_heldin"):
        script("nlb").main(["mc_maze", paths[1], paths[1], paths[2]])


def test_rates_of_nlb_without_its_tools():
    nlb = script("nlb")
    spikes, _, _ = made(trials=30)
    found = nlb.rates(spikes[:20, :, :20], spikes[:20, :, 20:], spikes[20:, :, :20], 0.005, noise=0.1)
    assert {name: of.shape for name, of in found.items()} == {
        "train_rates_heldin": (20, 140, 20), "train_rates_heldout": (20, 140, 6),
        "eval_rates_heldin": (10, 140, 20), "eval_rates_heldout": (10, 140, 6),
    }
    assert all((of > 0).all() for of in found.values())
    # The rate of a bin is estimated later, and is put where it belongs.
    assert nlb.earlier(np.arange(8).reshape(8, 1), 2, 4, 1)[:, :, 0].tolist() == [[1, 2, 3, 3], [5, 6, 7, 7]]


def test_falcon(tmp_path, capsys):
    if importlib.util.find_spec("torch") is None:
        sys.path.append(str(pathlib.Path(__file__).parent / "stand_in"))
    pytest.importorskip("falcon_challenge", reason="falcon-challenge is not installed")
    pytest.importorskip("pynwb", reason="pynwb is not installed")
    pytest.importorskip("hydra", reason="hydra-core is not installed")
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from test_falcon import FILES, write

    fill, names = FILES["m2"]
    for name in names:
        write(tmp_path / "m2" / "held_in_calib" / name.replace("minival", "calib"), 96, 2, fill)
        write(tmp_path / "m2" / "minival" / name, 96, 2, fill)
    script("falcon").main(["m2", str(tmp_path), "--batch", "2"])
    assert "Held In" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="expected NWB files to train on, found none; docs/benchmarks.md"):
        script("falcon").main(["m2", str(tmp_path / "m2")])


def test_arguments_of_falcon():
    falcon = script("falcon")
    asked = falcon.arguments(["m1", "somewhere"])
    assert (asked.kind, falcon.bank(asked.bank), asked.noise) == ("auto", "auto", None)
    assert falcon.bank("0.05:0 0.2:1") == [(0.05, 0), (0.2, 1)] and falcon.bank("reach") == "reach"
