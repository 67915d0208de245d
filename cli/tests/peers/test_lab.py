"""NWB files of ../shared/lab (or of the folder in BETZ_SHARED) as `betz convert` reads them, beside what pynwb reads. `pytest -rP` prints the table."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import BETZ, ROOT

pynwb = pytest.importorskip("pynwb", reason="pynwb is not installed")
LAB = pathlib.Path(os.environ.get("BETZ_SHARED", ROOT.parent / "shared")) / "lab" / "nwb"
# Name of a file: the series that is its behaviour, the used time where it is not all, and words of the remark.
FILES = {
    "own_invalid": ("behavior", [[0, 2], [4, 20]], "masked by intervals/invalid_times"),
    "lsl_jump": ("hand_vel", None, "left out: 1 sample of behaviour"),
    "allen_running": ("running_speed", None, ""),
    "ibl_like": ("WheelVelocity", None, ""),
    "position_link": ("hand_pos", None, ""),
    "obs_intervals": ("hand_vel", None, "unobserved, not silent"),
    "dup_ids": (None, None, "unit7_2"),
    "relxy_units": (None, None, ""),
    "level": ("cursor_position", None, "acquisition/Sound_level"),
    "ms_times": ("hand_vel", None, "they look like milliseconds"),
}


def series_named(file, name):
    return next(o for o in file.objects.values() if isinstance(o, pynwb.TimeSeries) and o.name == name)


def moments(series):
    if series.timestamps is not None:
        return np.asarray(series.timestamps)
    return series.starting_time + np.arange(len(series.data)) / series.rate


@pytest.mark.parametrize("name", FILES)
def test_file_is_read_as_pynwb_reads_it(name, tmp_path):
    path, out = LAB / f"{name}.nwb", tmp_path / "out.npz"
    if not path.exists():
        pytest.skip(f"no {path}")
    behaviour, used, words = FILES[name]
    told = subprocess.run([BETZ, "convert", path, out], capture_output=True, text=True)
    assert told.returncode == 0 and words in told.stderr, told.stderr
    ours = np.load(out)
    tick = float(ours["tick_seconds"])
    segments = ours["segments"] * tick
    with pynwb.NWBHDF5IO(str(path), "r") as io:
        file = io.read()
        trains = [np.asarray(file.units["spike_times"][i]) for i in range(len(file.units))]
        if used is not None:
            np.testing.assert_allclose(segments, used, atol=2 * tick)
        if "obs_intervals" in file.units.colnames:
            observed = [np.asarray(file.units["obs_intervals"][i]) for i in range(len(file.units))]
            last = min(intervals[-1, 1] for intervals in observed)
            assert segments[-1, 1] <= last + 2 * tick, "unobserved time is used"
        spikes = ours["spike_ticks"], ours["spike_channels"]
        compared = 0
        for unit, train in enumerate(trains):
            mine = np.sort(spikes[0][spikes[1] == unit]) * tick
            theirs = np.sort(train)
            theirs = theirs[(theirs >= 0) & (theirs < float(ours["duration_ticks"]) * tick)]
            np.testing.assert_allclose(mine, theirs, atol=1.01 * tick)
            compared += len(mine)
        if "electrodes" in file.units.colnames:
            electrodes = [file.units["electrodes"][i] for i in range(len(file.units))]
            places = [list(rows[["rel_x", "rel_y"]].iloc[0]) for rows in electrodes]
            np.testing.assert_allclose(ours["electrode_um"], places)
        if behaviour is not None:
            series = series_named(file, behaviour)
            data, times = np.asarray(series.data), moments(series)
            data = data.reshape(len(data), -1) * series.conversion + series.offset
            if name == "lsl_jump":
                data, times = np.delete(data, 500, axis=0), np.delete(times, 500)
            # Without times of its own, behaviour has one sample per tick.
            if "behavior_times" in ours:
                at = {round(t, 6): row for t, row in zip(times, data)}
                data = [at[round(t, 6)] for t in ours["behavior_times"]]
            np.testing.assert_allclose(ours["behavior"], data, rtol=1e-5, atol=1e-6)
            compared += ours["behavior"].size
    print(f"{name}: {compared} numbers as pynwb")
    assert compared
