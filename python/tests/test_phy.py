"""Spikes with features from a folder of Kilosort or Phy."""

import numpy as np
import pytest

import betz


def folder(path, spikes=400, seed=1, shanks=True):
    """Two tetrodes, four templates; each template stores three channels of its tetrode and one of the other."""
    rng = np.random.default_rng(seed)
    stored = np.array([[0, 1, 2, 4], [2, 3, 1, 5], [4, 5, 6, 0], [6, 7, 5, 3]])
    templates = rng.integers(0, 4, spikes)
    size = np.array([5.0, 3.0, 2.0, 0.1])
    pcs = rng.normal(0, 0.3, (spikes, 3, 4)) + np.stack([size, 0.1 * size, 0 * size])
    arrays = {
        "spike_times": np.sort(rng.integers(0, 300_000, spikes))[:, None].astype(np.uint64),
        "spike_templates": templates.astype(np.uint32),
        "spike_clusters": templates.astype(np.int32),
        "pc_features": pcs.astype(np.float32),
        "pc_feature_ind": stored.astype(np.uint32),
        "channel_map": np.arange(8, dtype=np.int32),
        "channel_positions": np.stack([np.arange(8) // 4 * 500.0, np.arange(8) % 4 * 20.0], axis=1),
        "amplitudes": rng.random(spikes),
        "templates": rng.normal(0, 1, (4, 20, 8)).astype(np.float32),
        "whitening_mat": np.eye(8),
    }
    if shanks:
        arrays["channel_shanks"] = np.arange(8) // 4
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    (path / "params.py").write_text("dat_path = ''\nn_channels_dat = 8\ndtype = 'int16'\noffset = 0\nsample_rate = 30000.\nhp_filtered = False\n")
    return arrays


def test_features_are_those_of_the_groups_channels(tmp_path):
    arrays = folder(tmp_path)
    recording, features = betz.read_phy(tmp_path, components=2)
    assert recording.channel_names == ["group0", "group1"] and recording.tick_seconds == 1 / 30000
    assert recording.spike_ticks.tolist() == arrays["spike_times"].ravel().tolist()
    assert features.shape == (400, 8)
    for i in range(400):
        template = arrays["spike_templates"][i]
        expected = np.zeros((8, 2))
        for at, channel in enumerate(arrays["pc_feature_ind"][template]):
            expected[channel] = arrays["pc_features"][i, :2, at]
        group = recording.spike_channels[i]
        sizes = [np.square(expected[:4]).sum(), np.square(expected[4:]).sum()]
        assert group == np.argmax(sizes)
        assert np.allclose(features[i], expected[4 * group : 4 * group + 4].ravel())
    # Templates 0 and 1 belong to the first tetrode.
    assert np.mean(recording.spike_channels == (arrays["spike_templates"] >= 2)) > 0.99


def test_features_are_those_of_phylib(tmp_path):
    model = pytest.importorskip("phylib.io.model", reason="phylib is not installed")
    folder(tmp_path)
    opened = model.TemplateModel(dir_path=tmp_path, dat_path=[], sample_rate=30000.0, n_channels_dat=8)
    recording, features = betz.read_phy(tmp_path, components=3)
    spikes = np.arange(400)
    theirs = [opened.get_features(spikes, np.arange(4) + 4 * group) for group in (0, 1)]
    chosen = recording.spike_channels
    for i in spikes:
        assert np.allclose(features[i].reshape(4, 3), theirs[chosen[i]][i], atol=1e-6)


def test_trained_on(tmp_path):
    folder(tmp_path, spikes=4000)
    place = 50 - 50 * np.cos(np.arange(500) * 0.05)
    recording, features = betz.read_phy(
        tmp_path, behavior=place, behavior_times=np.arange(500) * 0.02, behavior_names=["x"], behavior_units=["cm"], duration_ticks=300_000
    )
    decoder = betz.ClusterlessDecoder(cells=8, components=8).fit(recording, features)
    assert decoder.predict(recording, features).shape == (500, 1)
    recording.save(tmp_path / "tetrodes.npz", spike_features=features)
    assert np.array_equal(betz.spike_features(tmp_path / "tetrodes.npz"), features, equal_nan=True)


def test_numbers_of_numpy_are_numbers(tmp_path):
    arrays = folder(tmp_path)
    expected = betz.read_phy(tmp_path, components=2)
    for dtype in (np.int64, np.float32):
        recording, features = betz.read_phy(tmp_path, components=np.int32(2), sample_rate=dtype(30000))
        assert recording.tick_seconds == 1 / 30000 and np.array_equal(features, expected[1], equal_nan=True)
    # As some tools save them.
    np.save(tmp_path / "spike_times.npy", arrays["spike_times"].astype(np.float64))
    assert np.array_equal(betz.read_phy(tmp_path)[0].spike_ticks, expected[0].spike_ticks)


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="sample_rate: expected samples per second, here or in .*params.py, got None"):
        betz.read_phy(tmp_path)
    arrays = folder(tmp_path, shanks=False)
    assert betz.read_phy(tmp_path)[0].channel_names == ["group0"]
    own, features = betz.read_phy(tmp_path, groups=[0, 0, 0, 0, 7, 7, 7, 9])
    assert own.channel_names == ["group0", "group7", "group9"]
    # A group of three channels has no fourth.
    assert np.isnan(features[own.spike_channels == 1][:, 3]).all()
    with pytest.raises(ValueError, match="groups: expected 8, one per channel of channel_map.npy, got 2"):
        betz.read_phy(tmp_path, groups=[0, 1])
    with pytest.raises(ValueError, match="components: expected 1 to 3"):
        betz.read_phy(tmp_path, components=4)
    with pytest.raises(TypeError, match="components: expected a whole number, got 1.0"):
        betz.read_phy(tmp_path, components=1.0)
    for rate in (np.inf, np.nan, -1, 0, "30000"):
        with pytest.raises(ValueError, match="sample_rate: expected samples per second"):
            betz.read_phy(tmp_path, sample_rate=rate)
    for wrong in (np.nan, np.inf, 0.5, 1e30):
        times = arrays["spike_times"].astype(np.float64)
        times[7] = wrong
        np.save(tmp_path / "spike_times.npy", times)
        with pytest.raises(betz.BetzError, match="spike_times.npy: expected whole numbers, got"):
            betz.read_phy(tmp_path)
    np.save(tmp_path / "spike_times.npy", arrays["spike_times"].astype("U8"))
    with pytest.raises(betz.BetzError, match="spike_times.npy: expected whole numbers, got <U8"):
        betz.read_phy(tmp_path)
    np.save(tmp_path / "spike_times.npy", arrays["spike_times"])
    np.save(tmp_path / "spike_templates.npy", arrays["spike_templates"] + 1)
    with pytest.raises(betz.BetzError, match="spike_templates.npy: expected templates from 0 to 3, got 4"):
        betz.read_phy(tmp_path)
    np.save(tmp_path / "spike_templates.npy", arrays["spike_templates"][:5])
    with pytest.raises(betz.BetzError, match="of 400 spikes"):
        betz.read_phy(tmp_path)
    (tmp_path / "pc_features.npy").unlink()
    with pytest.raises(FileNotFoundError, match="expected pc_features.npy, got none"):
        betz.read_phy(tmp_path)
    channels = 70
    wide = tmp_path / "wide"
    wide.mkdir()
    folder(wide)
    np.save(wide / "channel_map.npy", np.arange(channels))
    with pytest.raises(ValueError, match="at most 64 channels per group with components=1, got 70"):
        betz.read_phy(wide, groups=np.zeros(channels))
