"""Recordings of voltage, described by `betz info`, beside what probeinterface and neo read of the same headers. `pytest -rP` prints the table.

Headers are those of the repository, and those of ../shared/lab (or the folder in BETZ_SHARED) where it is there.
"""
import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
from conftest import ROOT, run

SHARED = pathlib.Path(os.environ.get("BETZ_SHARED", ROOT.parent / "shared")) / "lab"
FIXTURES = ROOT / "crates" / "rig" / "formats" / "tests" / "fixtures" / "voltage"
# Streams of headers whose names do not tell; neo takes them from the names of files.
STREAMS = {"NP1_lf": "imec0.lf", "nidq_xa": "nidq", "onebox": "obx0"}


def headers():
    """Paths of all headers, each once."""
    found = {path.name: path for folder in (SHARED / "spikeglx", FIXTURES) for path in sorted(folder.glob("*.meta"))}
    return [found[name] for name in sorted(found)]


def streams(path):
    return json.loads(run("info", path, "--json"))["streams"]


def gains_of_neo(meta, folder):
    """Microvolts per bit of every saved channel; None for a header that neo does not read."""
    rawio = pytest.importorskip("neo.rawio.spikeglxrawio")
    usual = re.search("_g0_t0[.](.*)", meta.stem)
    copy = folder / f"run_g0_t0.{usual[1] if usual else STREAMS.get(meta.stem, 'imec0.ap')}.meta"
    text = re.sub("^(fileName|fileSizeBytes)=.*$", "", meta.read_text(errors="replace"), flags=re.M)
    copy.write_text(f"{text}\nfileName={copy.with_suffix('.bin')}\nfileSizeBytes=0\n")
    try:
        info = rawio.extract_stream_info(copy, rawio.read_meta_file(copy))
    except (KeyError, IndexError, ValueError):
        return None
    return np.array(info["channel_gains"]) * (1.0 if info["units"] == "uV" else 1e6)


def probe_of_probeinterface(meta):
    """Positions and shanks of the saved electrodes; None for a header that probeinterface does not read."""
    probeinterface = pytest.importorskip("probeinterface")
    try:
        probe = probeinterface.read_spikeglx(meta)
    except (AssertionError, KeyError, ValueError):
        return None
    shanks = [0] * probe.get_contact_count() if probe.shank_ids is None else [int(shank or 0) for shank in probe.shank_ids]
    return probe.contact_positions, shanks


def test_spikeglx_headers(tmp_path):
    counts = {"headers": 0, "gains as neo": 0, "positions and shanks as probeinterface": 0}
    for meta in headers():
        first = streams(meta)[0]
        channels = first["channels"]
        assert first["kind"] != "sync", meta
        counts["headers"] += 1
        gains = gains_of_neo(meta, tmp_path)
        if gains is not None:
            np.testing.assert_allclose([c["gain_uv"] for c in channels], gains[: len(channels)], rtol=1e-6, err_msg=meta.name)
            counts["gains as neo"] += 1
        probe = probe_of_probeinterface(meta)
        if probe is not None:
            np.testing.assert_allclose([(c["x_um"], c["y_um"]) for c in channels], probe[0], atol=1e-3, err_msg=meta.name)
            assert [c["shank"] for c in channels] == probe[1], meta.name
            counts["positions and shanks as probeinterface"] += 1
    print("SpikeGLX:", ", ".join(f"{count} {what}" for what, count in counts.items()))
    assert counts["headers"] >= 14 and counts["gains as neo"] >= 10 and counts["positions and shanks as probeinterface"] >= 10


def open_ephys(folder, header):
    """A recording of 100 samples per stream with a real header, in the folders that Open Ephys makes."""
    recording = folder / "Record Node 100" / "experiment1" / "recording1"
    recording.mkdir(parents=True)
    shutil.copy(header, recording / "structure.oebin")
    facts = json.loads(header.read_text())
    numbers = np.arange(100)
    for stream in facts["continuous"]:
        data = recording / "continuous" / stream["folder_name"]
        data.mkdir(parents=True)
        np.zeros((100, stream["num_channels"]), "<i2").tofile(data / "continuous.dat")
        np.save(data / "sample_numbers.npy", numbers)
        np.save(data / "timestamps.npy", numbers / stream["sample_rate"])
    for events in facts["events"]:
        data = recording / "events" / events["folder_name"]
        data.mkdir(parents=True)
        for name in ("sample_numbers", "timestamps", "states", "full_words", "text"):
            np.save(data / f"{name}.npy", np.zeros(0))
    return recording


@pytest.mark.parametrize("header", [FIXTURES / "gap_structure.oebin", SHARED / "openephys" / "neuropixels_structure.oebin"], ids=lambda p: p.stem)
def test_open_ephys_headers(header, tmp_path):
    rawio = pytest.importorskip("neo.rawio")
    if not header.exists():
        pytest.skip(f"no {header}")
    recording = open_ephys(tmp_path, header)
    io = rawio.OpenEphysBinaryRawIO(str(tmp_path))
    io.parse_header()
    theirs = io.header["signal_channels"]
    compared = 0
    for stream in streams(recording):
        if stream["kind"] == "sync":
            continue
        (of,) = [s["id"] for s in io.header["signal_streams"] if s["name"].endswith(f".{stream['name']}")]
        channels = theirs[theirs["stream_id"] == of]
        assert len(stream["channels"]) == len(channels) and stream["rate_hz"] == channels["sampling_rate"][0]
        # neo passes on the numbers of analogue inputs, which are in volts.
        volts = 1e6 if stream["kind"] == "analog" else 1.0
        np.testing.assert_allclose([c["gain_uv"] for c in stream["channels"]], channels["gain"] * volts, rtol=1e-6)
        assert [c["name"] for c in stream["channels"]] == list(channels["name"])
        compared += 1
    print(f"Open Ephys, {header.name}: {compared} streams as neo")
    assert compared


def test_converted_voltage_is_read_by_pynwb_and_spikeinterface(tmp_path):
    """Every sample of a 4-shank probe, in volts, at its time and position. neo's NWBIO reads no ElectricalSeries."""
    pynwb = pytest.importorskip("pynwb")
    start = ("--start", "2020-10-19T13:00:00-05:00", "--subject", "M1", "--species", "Mus musculus", "--age", "P60D", "--sex", "F")
    meta = FIXTURES / "NP2_2013_subset_channels.imec0.ap.meta"
    first = streams(meta)[0]
    columns = max(c["column"] for s in streams(meta) for c in s["channels"]) + 1
    rows = np.random.default_rng(5).integers(-500, 500, (3000, columns)).astype("<i2")
    shutil.copy(meta, tmp_path / "run_g0_t0.imec0.ap.meta")
    rows.tofile(tmp_path / "run_g0_t0.imec0.ap.bin")
    out = tmp_path / "run.nwb"
    run("convert", tmp_path / "run_g0_t0.imec0.ap.bin", out, *start)
    used = [c["column"] for c in first["channels"]]
    gain = first["channels"][0]["gain_uv"]
    with pynwb.NWBHDF5IO(str(out), "r") as io:
        file = io.read()
        (name,) = [k for k, v in file.acquisition.items() if isinstance(v, pynwb.ecephys.ElectricalSeries)]
        series = file.acquisition[name]
        np.testing.assert_array_equal(series.data[:], rows[:, used])
        np.testing.assert_allclose(series.conversion, gain * 1e-6, rtol=1e-12)
        assert series.rate == first["rate_hz"] and series.starting_time == 0
        table = series.electrodes.to_dataframe()
        np.testing.assert_allclose(table[["x", "y"]], [(c["x_um"], c["y_um"]) for c in first["channels"]])
        assert list(table["shank"]) == [c["shank"] for c in first["channels"]]
        others = [v for k, v in file.acquisition.items() if k != name]
        (sync,) = [c["column"] for s in streams(meta)[1:] for c in s["channels"]]
        np.testing.assert_array_equal(others[0].data[:].ravel(), rows[:, sync])
    extractors = pytest.importorskip("spikeinterface.extractors")
    recording = extractors.read_nwb_recording(str(out), electrical_series_path=f"acquisition/{name}")
    np.testing.assert_allclose(recording.get_traces(return_in_uV=True), rows[:, used] * gain, rtol=1e-5)
    inspector = pytest.importorskip("nwbinspector")
    found = [m for m in inspector.inspect_nwbfile(nwbfile_path=str(out)) if m.importance.value >= inspector.Importance.CRITICAL.value]
    assert not found, found


def test_converted_gap_is_two_series(tmp_path):
    pynwb = pytest.importorskip("pynwb")
    recording = open_ephys(tmp_path, FIXTURES / "gap_structure.oebin")
    stream = next(s for s in streams(recording) if s["kind"] != "sync")
    (data,) = [p for p in recording.glob("continuous/*/continuous.dat") if p.parent.name.endswith(stream["name"])]
    numbers = np.r_[np.arange(60), np.arange(500, 540)]
    np.save(data.parent / "sample_numbers.npy", numbers)
    out = tmp_path / "gap.nwb"
    run("convert", recording, out, "--stream", stream["name"], "--start", "2020-10-19T13:00:00-05:00")
    with pynwb.NWBHDF5IO(str(out), "r") as io:
        parts = sorted(io.read().acquisition.values(), key=lambda s: s.starting_time)
        assert [len(p.data) for p in parts] == [60, 40]
        np.testing.assert_allclose([p.starting_time for p in parts], [0, 500 / stream["rate_hz"]], rtol=1e-12)
