"""A folder of `betz sort run --phy`, read by phylib and SpikeInterface: the spikes are those of the recording that was written."""
import json

import numpy as np
import pytest
from conftest import run

RATE = 30_000.0
CHANNELS = 4
SECONDS = 20


@pytest.fixture(scope="module")
def sorted_folder(tmp_path_factory):
    """Two units on four channels, sorted from the second second on."""
    folder = tmp_path_factory.mktemp("phy")
    rng = np.random.default_rng(1)
    rows = int(RATE * SECONDS)
    voltage = rng.normal(0, 40, (rows, CHANNELS))
    t = np.arange(-20, 60)
    shape = -900 * np.exp(-((t / 5.0) ** 2)) + 250 * np.exp(-(((t - 15) / 10.0) ** 2))
    for near, far in ((0, 1), (3, 2)):
        for at in np.sort(rng.choice(np.arange(200, rows - 200, 150), 200, replace=False)) + 37 * near:
            voltage[at - 20 : at + 60, near] += shape
            voltage[at - 20 : at + 60, far] += 0.4 * shape
    voltage.astype("<i2").tofile(folder / "raw.dat")
    probe = {"contact_positions": [[0, 0], [0, 20], [0, 40], [0, 60]], "device_channel_indices": [0, 1, 2, 3]}
    (folder / "probe.json").write_text(json.dumps({"specification": "probeinterface", "probes": [probe]}))
    options = ("--rate", RATE, "--channels", CHANNELS, "--gain", 0.195)
    run("sort", "train", "raw.dat", "--probe", "probe.json", *options, "--out", "s.betz", cwd=folder)
    told = run("sort", "run", "s.betz", "raw.dat", "--channels", CHANNELS, "--from", 2, "--out", "spikes.npz", "--phy", "phy", "--json", cwd=folder)
    return folder, json.loads(told)


def written(folder):
    """Rows of the file and units of the spikes in the recording."""
    with np.load(folder / "spikes.npz") as file:
        names = [int(name.removeprefix("unit")) for name in file["channel_names"]]
        return file["spike_ticks"] + int(2 * RATE), np.array(names)[file["spike_channels"]]


def test_phylib_reads_spikes_templates_and_traces(sorted_folder):
    model = pytest.importorskip("phylib.io.model")
    folder, told = sorted_folder
    model = model.load_model(folder / "phy" / "params.py")
    rows, units = written(folder)
    assert np.array_equal(model.spike_samples, rows) and np.array_equal(model.spike_clusters, units)
    assert (model.n_spikes, model.n_templates, model.n_channels) == (told["spikes"], told["channels"], CHANNELS)
    assert model.sample_rate == RATE and model.traces.shape == (int(RATE * SECONDS), CHANNELS)
    assert np.array_equal(model.channel_positions, [[0, 0], [0, 20], [0, 40], [0, 60]])
    # The voltage has its minimum on the template's best channel at most 0.5 ms from the spike.
    raw = np.fromfile(folder / "raw.dat", "<i2").reshape(-1, CHANNELS)
    for template in np.unique(model.spike_templates):
        best = model.get_template(template).channel_ids[0]
        spikes = rows[model.spike_templates == template]
        spikes = spikes[(spikes > 40) & (spikes < len(raw) - 40)]
        mean = np.mean([raw[s - 40 : s + 40, best] for s in spikes], axis=0)
        assert abs(int(np.argmin(mean)) - 40) <= 15
    assert np.allclose(np.diag(model.similar_templates), 1, atol=1e-5)


def test_spikeinterface_reads_units(sorted_folder):
    extractors = pytest.importorskip("spikeinterface.extractors")
    folder, told = sorted_folder
    sorting = extractors.read_phy(folder / "phy")
    rows, units = written(folder)
    assert sorting.get_sampling_frequency() == RATE
    assert sorted(sorting.unit_ids) == sorted(np.unique(units))
    for unit in sorting.unit_ids:
        assert np.array_equal(np.sort(sorting.get_unit_spike_train(unit)), np.sort(rows[units == unit]))


def test_what_was_written_can_be_imported(sorted_folder):
    folder, told = sorted_folder
    options = ("--voltage", "raw.dat", "--gain", 0.195, "--out", "imported.betz", "--json")
    imported = json.loads(run("sort", "import", "phy", *options, cwd=folder))
    assert len(imported["units"]) == told["channels"]
    # Labels by hand, one cluster without: Kilosort's.
    ids = [unit["unit"] for unit in imported["units"]]
    (folder / "phy" / "cluster_group.tsv").write_text(f"cluster_id\tgroup\tnote\n{ids[0]}\tunsorted\tx\n")
    (folder / "phy" / "cluster_KSLabel.tsv").write_text("cluster_id\tKSLabel\n" + "".join(f"{i}\tgood\n" for i in ids))
    good = json.loads(run("sort", "import", "phy", *options, "--force", cwd=folder))
    assert [unit["unit"] for unit in good["units"]] == ids[1:]
    assert any("unsorted: 1" in note for note in good["notes"])
    other = json.loads(run("sort", "import", "phy", *options, "--force", "--label", "unsorted", cwd=folder))
    assert [unit["unit"] for unit in other["units"]] == ids[:1]
