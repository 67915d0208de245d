"""Clusterless place decoders: spikes with features, from Python."""

import pickle

import numpy as np
import pytest

import betz


def tetrodes(steps=9000, seed=1):
    """Two tetrodes beside a track of 100 cm that is run to and fro; each hears three cells whose amplitudes differ."""
    rng = np.random.default_rng(seed)
    x = 100 * (1 - np.abs(2 * (np.arange(steps) * 0.02 / 8 % 1) - 1))
    ticks, channels, features = [], [], []
    for cell in range(6):
        rate = 20 * np.exp(-0.5 * ((x - 10 - 16 * cell) / 8) ** 2)
        own = np.flatnonzero(rng.random(steps) < rate * 0.02)
        ticks.append(own)
        channels.append(np.full(len(own), cell % 2))
        features.append([100 + 60 * (cell // 2), 80] + rng.normal(0, 8, (len(own), 2)))
    ticks, channels, features = np.concatenate(ticks), np.concatenate(channels), np.concatenate(features)
    order = np.argsort(ticks, kind="stable")
    recording = betz.Recording.from_spikes(
        ticks[order], channels[order], 0.02, duration_ticks=steps, behavior=x, behavior_names=["x"], behavior_units=["cm"]
    )
    return recording, features[order].astype(np.float32), x


def fitted(recording, features):
    return betz.ClusterlessDecoder(cells=20).fit(recording, features, seconds=(0, 120))


def test_fit_predict_score(tmp_path):
    recording, features, x = tetrodes()
    decoder = fitted(recording, features)
    assert decoder.training_["unit"] == "cm" and decoder.training_["held_out_median_error"] < 8
    error = decoder.median_error(recording, features, seconds=(120, 180))
    assert error < 8
    estimates = decoder.predict(recording, features, seconds=(120, 180))
    assert estimates.shape == (9000, 1) and np.isnan(estimates[:6000]).all()
    assert np.median(np.abs(estimates[6000:, 0] - x[6000:])) == pytest.approx(error, rel=0.01)
    residual = np.sum((estimates[6000:, 0] - x[6000:]) ** 2)
    r2 = 1 - residual / np.sum((x[6000:] - x[6000:].mean()) ** 2)
    assert decoder.score(recording, features, seconds=(120, 180)) == pytest.approx(r2, abs=1e-4)
    # Without features, the two tetrodes say much less.
    blind = fitted(recording, np.ones_like(features))
    assert blind.median_error(recording, np.ones_like(features), seconds=(120, 180)) > 1.5 * error
    model = decoder.model_
    assert (model.channels, model.features, model.output_names, model.step_seconds) == (2, 2, ["x"], 0.02)
    assert set(model.shape) == {"bandwidth", "smoothing", "walk", "trust"} and 0 < model.components <= 128
    model.save(tmp_path / "marks.betz")
    assert betz.ClusterlessModel.load(tmp_path / "marks.betz") == model == pickle.loads(pickle.dumps(model))
    with pytest.raises(betz.BetzError, match="betz.ClusterlessModel.load reads it"):
        betz.Model.load(tmp_path / "marks.betz")
    with pytest.raises(betz.BetzError, match="betz.ClusterlessModel.load reads it"):
        betz.Model.from_bytes((tmp_path / "marks.betz").read_bytes())


def test_a_session_steps_as_decoding_does():
    recording, features, _ = tetrodes(3000)
    decoder = betz.ClusterlessDecoder(cells=12, components=16).fit(recording, features)
    expected = decoder.predict(recording, features)
    session = decoder.session()
    assert not session.posterior().any()
    ticks, channels = recording.spike_ticks, recording.spike_channels
    for step in range(500):
        now = ticks == step
        mean = session.step(channels[now], features[now])
        assert mean == expected[step]
    p = session.posterior()
    assert p.sum() == pytest.approx(1) and float(p @ decoder.model_.cells[:, 0]) == pytest.approx(expected[499, 0], rel=1e-5)
    session.step([0], [[np.nan, 1.0]])
    assert session.spikes_left_out == 1
    session.reset()
    assert session.step(channels[ticks == 0], features[ticks == 0]) == expected[0]
    with pytest.raises(ValueError, match=r"channels: \[0\] = 2: expected a channel from 0 to 1"):
        session.step([2], [[1.0, 1.0]])
    with pytest.raises(ValueError, match=r"expected \(1, 2\), a row per spike, got \(1, 3\)"):
        session.step([0], [[1.0, 1.0, 1.0]])


def test_features_in_files(tmp_path):
    recording, features, _ = tetrodes(1000)
    path = tmp_path / "tetrodes.npz"
    recording.save(path, spike_features=features)
    assert np.array_equal(betz.spike_features(path), features)
    assert betz.Recording.from_npz(path).spike_ticks.tolist() == recording.spike_ticks.tolist()
    with pytest.raises(betz.BetzError, match="one per spike, got 3"):
        recording.save(path, spike_features=features[:3])
    recording.save(path)
    with pytest.raises(betz.BetzError, match="`spike_features`"):
        betz.spike_features(path)


def test_refusals():
    recording, features, _ = tetrodes(1000)
    decoder = betz.ClusterlessDecoder()
    with pytest.raises(betz.BetzError, match="one per spike"):
        decoder.fit(recording, features[1:])
    with pytest.raises(betz.BetzError, match="one per spike"):
        decoder.fit(recording[[0]].with_trials([(0, 500)]), features)
    with pytest.raises(betz.BetzError, match="cells: expected 4 to 1000, got 1"):
        betz.ClusterlessDecoder(cells=1).fit(recording, features)
    with pytest.raises(TypeError, match="recording: expected a betz.Recording of spike times"):
        decoder.fit(np.ones((10, 2)), features)
    with pytest.raises(TypeError, match="seconds: expected"):
        decoder.fit(recording, features, seconds=3)
    counts = betz.Recording.from_counts(np.full((100, 2), 2, np.uint8), 0.02, behavior=np.arange(100.0), behavior_units=["cm"])
    with pytest.raises(betz.BetzError, match="spike times, got counts"):
        decoder.fit(counts, np.ones((200, 2)))
    bare = betz.Recording.from_spikes([1, 2], [0, 1], 0.02)
    with pytest.raises(betz.BetzError, match="behaviour"):
        decoder.fit(bare, np.ones((2, 2)))
    with pytest.raises(ValueError, match="expected behaviour to score against"):
        decoder.fit(recording, features).score(bare, np.ones((2, 2)))
