"""Other packages' objects and files; each test skips where its package is not installed."""

import pathlib
import pickle
import warnings

import numpy as np
import pytest

import betz

NWB = pathlib.Path(__file__).parents[2] / "crates" / "rig" / "formats" / "tests" / "fixtures"


def trains(units=5, seconds=10.0):
    rng = np.random.default_rng(0)
    return [np.sort(rng.random(50) * seconds) for _ in range(units)]


def check(recording, of, tick_seconds=1e-4):
    for channel, train in enumerate(of):
        ticks = recording.spike_ticks[recording.spike_channels == channel]
        np.testing.assert_array_equal(ticks, np.floor(train / tick_seconds + 1e-6))


@pytest.mark.skipif(not NWB.exists(), reason="its files are the repository's; a package made of python/ alone has none")
def test_nwb():
    with pytest.warns(UserWarning, match="FALCON M2"):
        recording = betz.Recording.from_nwb(NWB / "m2.nwb")
    assert recording.behavior_names == ["index_vel", "mrs_vel"] and recording.channels == 6
    with pytest.warns(betz.BetzWarning, match="columns of units that are not used: heldout") as told:
        position = betz.Recording.from_nwb(NWB / "nlb.nwb", behavior="hand_pos")
    assert position.behavior_units == ["mm", "mm"] and len(told) == 3
    assert any("not taken as behaviour (behavior=[NAME] does): " in str(warning.message) for warning in told)
    with pytest.raises(betz.BetzError, match="hand_vel"):
        betz.Recording.from_nwb(NWB / "nlb.nwb", behavior="elbow")


@pytest.mark.skipif(not NWB.exists(), reason="its files are the repository's; a package made of python/ alone has none")
@pytest.mark.filterwarnings("ignore")
def test_parts_of_nwb():
    whole = betz.Recording.from_nwb(NWB / "m2.nwb")
    name = whole.channel_names[2]
    one = betz.Recording.from_nwb(NWB / "m2.nwb", units=[name])
    assert one.channel_names == [name]
    np.testing.assert_array_equal(one.spike_ticks, whole.spike_ticks[whole.spike_channels == 2])
    some = betz.Recording.from_nwb(NWB / "m2.nwb", seconds=(1.0, 2.0))
    inside = (whole.spike_ticks >= 100_000) & (whole.spike_ticks < 200_000)
    np.testing.assert_array_equal(some.spike_ticks, whole.spike_ticks[inside])
    with pytest.raises(betz.BetzError, match="expected some of"):
        betz.Recording.from_nwb(NWB / "m2.nwb", units=["nix"])
    with pytest.raises(betz.BetzError, match="a beginning before an end"):
        betz.Recording.from_nwb(NWB / "m2.nwb", seconds=(2.0, 1.0))


@pytest.mark.skipif(not NWB.exists(), reason="its files are the repository's; a package made of python/ alone has none")
@pytest.mark.filterwarnings("ignore")
def test_intervals_of_nwb():
    def seconds(**tables):
        recording = betz.Recording.from_nwb(NWB / "nlb.nwb", **tables)
        return [(start * recording.tick_seconds, stop * recording.tick_seconds) for start, stop in recording.segments]

    assert np.allclose(seconds(), [(0.0, 1.5), (2.0, 3.5)], atol=1e-3)
    assert seconds(trials="trials:split=train") == seconds(trials=["trials"]) == seconds()
    assert seconds(within="trials", mask="none") == seconds()
    with pytest.raises(betz.BetzError, match="expected one of"):
        seconds(trials="reaches")
    # Trials that are masked by themselves leave nothing.
    with pytest.raises(betz.BetzError):
        seconds(mask="trials")


@pytest.mark.skipif(not NWB.exists(), reason="its files are the repository's; a package made of python/ alone has none")
@pytest.mark.filterwarnings("ignore")
def test_nwb_as_pynwb_reads_it():
    pynwb = pytest.importorskip("pynwb")
    for path in sorted(NWB.glob("*.nwb")):
        with pynwb.NWBHDF5IO(str(path), "r") as io:
            units = io.read().units
            if units is None:
                continue  # voltage alone
            of = [np.asarray(train) for train in units["spike_times"][:]]
        check(betz.Recording.from_nwb(path), of, 1e-5)


def test_pynapple():
    nap = pytest.importorskip("pynapple")
    of = trains()
    units = nap.TsGroup({k + 3: nap.Ts(train) for k, train in enumerate(of)})
    movement = nap.TsdFrame(t=np.arange(0, 10, 0.01), d=np.zeros((1000, 2)), columns=["x", "y"])
    trials = nap.IntervalSet([1, 5], [4, 9])
    recording = betz.Recording.from_pynapple(units, behavior=movement, trials=trials)
    check(recording, of)
    assert recording.channel_names == ["3", "4", "5", "6", "7"]
    assert recording.behavior_names == ["x", "y"] and recording.behavior.shape == (1000, 2)
    assert recording.segments.tolist() == [[10_000, 40_000], [50_000, 90_000]]


def test_neo():
    neo = pytest.importorskip("neo")
    quantities = pytest.importorskip("quantities")
    of = trains()
    segment = neo.Segment()
    for k, train in enumerate(of):
        segment.spiketrains.append(neo.SpikeTrain(train * 1e3, units="ms", t_stop=1e4, name=f"unit {k}"))
    rate = quantities.Quantity(100, "Hz")
    segment.analogsignals.append(neo.AnalogSignal(np.zeros((1000, 2)), units="mV", sampling_rate=rate, name="hand"))
    recording = betz.Recording.from_neo(segment, behavior="hand")
    check(recording, of)
    assert recording.channel_names[1] == "unit 1" and recording.behavior_names == ["hand0", "hand1"]
    with pytest.raises(ValueError, match="'hand'"):
        betz.Recording.from_neo(segment, behavior="foot")


START = "2020-10-19T13:00:00-05:00"


def made(form):
    rng = np.random.default_rng(3)
    names = ["á☃", "b/c", "unit3"]
    beside = dict(
        channel_names=names,
        behavior=rng.standard_normal((400, 4)).astype("f4"),
        behavior_names=["vel_x", "vel_y", "Größe", "timestamps"],
        behavior_units=["mm/s", "mm/s", "°", ""],
        electrode_um=[[0, 400], [np.nan, np.nan], [1.5, 2]],
        meta='{"task": "é"}',
    )
    if form == "counts":
        return betz.Recording.from_counts(rng.poisson(1, (400, 3)), 0.02, segments=[[0, 90], [150, 400]], **beside)
    if form == "signal":
        return betz.Recording.from_signal(rng.standard_normal((400, 3)), 1 / 30, segments=[[0, 90], [150, 400]], **beside)
    times = np.arange(400) * 0.02 if form == "events" else np.sort(rng.random(400)) * 8
    beside.update(behavior_times=times, segments=[[0, 90_000], [150_000, 800_000]], duration_ticks=800_000)
    ticks = np.sort(rng.integers(0, 800_000, 500))
    return betz.Recording.from_spikes(ticks, rng.integers(0, 2, 500), 1e-5, **beside)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["events", "irregular", "counts", "signal"])
def test_nwb_written_is_what_pynwb_reads(form, tmp_path):
    pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
    recording, path = made(form), tmp_path / "made.nwb"
    recording.to_nwb(path, start=START, subject="J", species="Macaca mulatta", sex="M", age="P8Y")
    assert not pynwb.validate(path=str(path))
    with pynwb.NWBHDF5IO(str(path), "r") as io:
        file = io.read()
        assert file.session_start_time.isoformat() == START and file.notes == recording.meta
        assert (file.subject.subject_id, file.subject.age) == ("J", "P8Y")
        assert (file.source_script_file_name, file.source_script.split()[0]) == ("betz", "Betz")
        trials = np.stack([file.trials["start_time"][:], file.trials["stop_time"][:]], 1)
        np.testing.assert_allclose(trials, recording.segments * recording.tick_seconds, rtol=1e-15)
        np.testing.assert_array_equal(file.electrodes["x"][:], recording.electrode_um[:, 0])
        np.testing.assert_array_equal(file.electrodes["y"][:], recording.electrode_um[:, 1])
        assert list(file.electrodes["channel_name"][:]) == recording.channel_names
        if form in ("events", "irregular"):
            assert list(file.units["unit_name"][:]) == recording.channel_names
            assert file.units.resolution == 1e-5
            check(recording, [np.asarray(train) for train in file.units["spike_times"][:]], 1e-5)
            assert [list(rows.index) for rows in file.units["electrodes"][:]] == [[0], [1], [2]]
            np.testing.assert_array_equal(file.units["obs_intervals"][0], [[0, 8]])
        else:
            series = file.processing["ecephys"]["spike_counts" if form == "counts" else "signal"]
            dense = np.zeros(series.data.shape, "f4")
            weights = 1 if recording.spike_weights is None else recording.spike_weights
            np.add.at(dense, (recording.spike_ticks, recording.spike_channels), weights)
            np.testing.assert_array_equal(series.data[:], dense)
            assert series.rate == 1 / recording.tick_seconds
        behavior = file.processing["behavior"]
        columns = [behavior[name].data[:].reshape(400, -1) for name in ("vel", "Größe", "timestamps")]
        np.testing.assert_array_equal(np.hstack(columns), recording.behavior)
        assert [behavior[name].unit for name in ("vel", "Größe", "timestamps")] == ["mm/s", "°", "n.a."]
        assert behavior["vel"].comments == "columns=[x,y]"
        if form == "irregular":
            for name in ("vel", "Größe"):
                np.testing.assert_array_equal(behavior[name].timestamps[:], recording.behavior_times)
        else:
            # Without times, a sample belongs to the end of its bin.
            start = {"events": 0, "counts": 0.02, "signal": 1 / 30}[form]
            assert (behavior["vel"].starting_time, behavior["vel"].rate) == (start, 50 if form != "signal" else 30)
    back = betz.Recording.from_nwb(path)
    for name in ("spike_ticks", "segments", "electrode_um", "behavior", "behavior_times"):
        np.testing.assert_array_equal(getattr(back, name), getattr(recording, name), name)
    for name in ("tick_seconds", "ticks", "channel_names", "behavior_names", "behavior_units", "meta", "form"):
        assert getattr(back, name) == getattr(recording, name), name


@pytest.mark.filterwarnings("ignore")
def test_nwb_written_has_no_critical_findings(tmp_path):
    inspector = pytest.importorskip("nwbinspector", reason="nwbinspector is not installed")
    for form in ("events", "irregular", "counts", "signal"):
        made(form).to_nwb(tmp_path / f"{form}.nwb", start=START)
        for found in inspector.inspect_nwbfile(nwbfile_path=str(tmp_path / f"{form}.nwb")):
            assert found.importance.name.startswith("BEST_PRACTICE"), found


def test_nwb_wants_to_know_when(tmp_path):
    from datetime import datetime, timezone

    recording = made("events")
    with pytest.raises(ValueError, match="start: expected"):
        recording.to_nwb(tmp_path / "x.nwb")
    for start in ("yesterday", datetime(2020, 10, 19, 13)):
        with pytest.raises(ValueError, match="with its zone"):
            recording.to_nwb(tmp_path / "x.nwb", start=start)
    recording.to_nwb(tmp_path / "x.nwb", start=datetime(2020, 10, 19, 13, tzinfo=timezone.utc))
    with pytest.raises(OSError):
        recording.to_nwb(tmp_path / "no" / "x.nwb", start=START)
    assert [path.name for path in tmp_path.iterdir()] == ["x.nwb"]


def test_behaviour_with_nan_is_missing():
    counts, behavior = np.ones((500, 2), np.uint8), np.arange(1000.0).reshape(500, 2)
    behavior[100:103, 0] = np.nan
    behavior[200:300, 1] = np.nan
    recording = betz.Recording.from_counts(counts, 0.02, behavior=behavior)
    np.testing.assert_array_equal(recording.behavior, behavior.astype(np.float32))
    data = recording.align()
    np.testing.assert_array_equal(data.segments, [[0, 200], [300, 500]])
    assert data.left_out["steps_interpolated"] == 3 and data.left_out["steps_in_gaps"] == 100
    np.testing.assert_allclose(data.behavior[98:105, 0], np.arange(196, 210, 2), rtol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(recording)).behavior, recording.behavior)
    with pytest.raises(betz.BetzError, match="a sample without NaN"):
        betz.Recording.from_counts(counts, 0.02, behavior=np.full((500, 1), np.nan))
