"""Other packages' objects and files; each test skips where its package is not installed."""

import pathlib
import warnings

import numpy as np
import pytest

import betz

NWB = pathlib.Path(__file__).parents[2] / "crates" / "interop" / "tests" / "fixtures"


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        position = betz.Recording.from_nwb(NWB / "nlb.nwb", behavior="hand_pos")
    assert position.behavior_units == ["mm", "mm"]
    with pytest.raises(betz.BetzError, match="hand_vel"):
        betz.Recording.from_nwb(NWB / "nlb.nwb", behavior="elbow")


@pytest.mark.skipif(not NWB.exists(), reason="its files are the repository's; a package made of python/ alone has none")
@pytest.mark.filterwarnings("ignore")
def test_nwb_as_pynwb_reads_it():
    pynwb = pytest.importorskip("pynwb")
    for path in sorted(NWB.glob("*.nwb")):
        with pynwb.NWBHDF5IO(str(path), "r") as io:
            of = [np.asarray(train) for train in io.read().units["spike_times"][:]]
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
