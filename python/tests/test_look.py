"""`betz.look`: the numbers are those of plain loops."""

import numpy as np
import pytest

import betz


@pytest.fixture(scope="module")
def recording():
    """Ten trials of a second; channel 0 fires 20 times in the tenth of a second that follows 0.3 s."""
    rng = np.random.default_rng(0)
    ticks, channels = [], []
    for trial in range(10):
        of = np.concatenate([trial * 1000 + 300 + np.sort(rng.choice(100, 20, replace=False)), trial * 1000 + np.sort(rng.choice(1000, 30, replace=False))])
        order = np.argsort(of, kind="stable")
        ticks.append(of[order])
        channels.append(np.r_[np.zeros(20), np.ones(30)][order])
    angle = np.arange(10_000) * 2 * np.pi / 1000
    return betz.Recording.from_spikes(
        np.concatenate(ticks), np.concatenate(channels).astype(int), 0.001, duration_ticks=10_000, channel_names=["evoked", "random"],
        segments=[(k * 1000, (k + 1) * 1000) for k in range(10)], behavior=np.column_stack([np.cos(angle), np.sin(angle)]),
        behavior_times=np.arange(10_000) * 0.001, behavior_names=["x", "y"],
    )


def test_psth(recording):
    found = betz.look.psth(recording, "starts", start=0.0, stop=1.0, bin=0.1)
    assert found["channels"] == ["evoked", "random"] and found["events"] == 10
    np.testing.assert_allclose(found["mean_hz"][0], [0, 0, 0, 200, 0, 0, 0, 0, 0, 0])
    of = recording.spike_ticks[recording.spike_channels == 1]
    np.testing.assert_allclose(found["mean_hz"][1], np.histogram(of % 1000, bins=10, range=(0, 1000))[0] / 10 / 0.1)
    late = betz.look.psth(recording, np.arange(10) + 0.3, channels="evoked", start=0.0, stop=0.1, bin=0.1)
    assert late["mean_hz"].tolist() == [[200.0]]


def test_raster(recording):
    found = betz.look.raster(recording, "evoked", "starts", start=0.0, stop=1.0)
    assert np.bincount(found["rows"]).tolist() == [20] * 10
    assert (found["seconds"] >= 0.3).all() and (found["seconds"] < 0.4).all()


def test_intervals_and_fano(recording):
    found = betz.look.isi(recording, channels=[1])
    of = recording.spike_ticks[recording.spike_channels == 1]
    intervals = np.concatenate([np.diff(of[of // 1000 == trial]) for trial in range(10)])
    assert int(found["counts"].sum() + found["longer"][0]) == len(intervals)
    assert found["cv"][0] == pytest.approx(intervals.std(ddof=0) / intervals.mean(), rel=0.02)
    counts = np.bincount(of // 100, minlength=100)
    fano = betz.look.fano(recording, channels="random", window=0.1)
    assert fano[0] == pytest.approx(counts.var(ddof=1) / counts.mean(), rel=0.02)


def test_tuning(recording):
    found = betz.look.tuning(recording, "direction", step_seconds=0.01)
    rate, centres = found["rate_hz"][0], found["axes"][0]["centres"]
    # 0.35 of a turn, as steps of 10 ms have it.
    assert abs(np.angle(np.exp(1j * (centres[np.nanargmax(rate)] - 0.35 * 2 * np.pi)))) < np.pi / 8 + 0.1
    assert found["cosine"]["r2"].shape == (2,) and found["bits_per_spike"][0] > 1
    maps = betz.look.tuning(recording, ["x", "y"], bins=4)
    assert maps["rate_hz"].shape == (2, 16) and [axis["name"] for axis in maps["axes"]] == ["x", "y"]
    assert betz.look.tuning(recording.align(0.05), "speed")["rate_hz"].shape == (2, 8)


def test_quality(recording):
    evoked, random = betz.look.quality(recording)
    assert (evoked["name"], evoked["spikes"], random["rate_hz"]) == ("evoked", 200, 30.0)
    assert evoked["violation_share"] > random["violation_share"]


@pytest.mark.parametrize(
    "asked, error, message",
    [
        (lambda r: betz.look.psth(r, "middle"), ValueError, 'expected "starts" or "stops"'),
        (lambda r: betz.look.psth(r, channels=["nobody"]), ValueError, "such as evoked, random"),
        (lambda r: betz.look.psth(r, channels=[2]), ValueError, "from 0 to 1, got 2"),
        (lambda r: betz.look.psth(r, channels=[0.5]), TypeError, "channels: expected whole numbers"),
        (lambda r: betz.look.psth(r, start=0.0, stop=0.35, bin=0.1), betz.BetzError, "whole number of bins"),
        (lambda r: betz.look.raster(r, [0, 1]), ValueError, "channel: expected one, got 2"),
        (lambda r: betz.look.tuning(r, "z"), ValueError, "one of x, y, got \"z\""),
        (lambda r: betz.look.tuning(np.zeros(3), "x"), TypeError, "data: expected a betz.Dataset"),
        (lambda r: betz.look.quality(np.zeros(3)), TypeError, "recording: expected a betz.Recording"),
        (lambda r: betz.look.psth(betz.Recording.from_signal([[0.5], [1.5]], 0.1)), betz.BetzError, "signal"),
    ],
)
def test_what_is_refused(recording, asked, error, message):
    with pytest.raises(error, match=message):
        asked(recording)
