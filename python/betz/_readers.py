"""Recordings from other packages' objects: whatever they hold becomes ticks, channels, samples."""

import json

import numpy as np

from . import _labels
from ._core import Recording, warn


def from_neo(neo, behavior, trials, tick_seconds):
    """See `Recording.from_neo`."""
    if not (hasattr(neo, "segments") or hasattr(neo, "spiketrains")):
        raise TypeError(f"neo: expected a neo.Block or neo.Segment, got {type(neo).__name__}")
    segments = getattr(neo, "segments", None) or [neo]
    starts = np.array([_seconds(segment.t_start) for segment in segments])
    stops = np.array([_seconds(segment.t_stop) for segment in segments])
    if (starts[1:] < stops[:-1] - tick_seconds / 2).any():
        raise ValueError("neo: expected segments one after the other, got some that overlap")
    origin = starts[0]
    names, trains = _trains(segments)
    times = np.concatenate([_seconds(train.times) - origin for train, _ in trains])
    channels = np.concatenate([np.full(len(train), channel, np.uint32) for train, channel in trains])
    wanted = [behavior] if isinstance(behavior, str) else list(behavior or [])
    joined = _joined([_across(segments, name, origin) for name in wanted])
    bounds, conditions = np.column_stack([starts, stops]), None
    if trials is not None:
        bounds, conditions = _ordered(_epochs(segments, [trials] if isinstance(trials, str) else trials))
        bounds, conditions = _cut(bounds, conditions, np.column_stack([starts, stops]), "the segments")
    return _recording(times, channels, tick_seconds, names, bounds - origin, joined, conditions)


def _trains(segments):
    """Names of the units, and every spike train with the number of its unit. Segments may list the units in any order."""
    of_segments = [[_train_name(train) for train in segment.spiketrains] for segment in segments]
    first, trains = of_segments[0], []
    named = not any(name is None for names in of_segments for name in names)
    for number, (segment, names) in enumerate(zip(segments, of_segments)):
        if not named and names != first:
            raise ValueError(
                f"neo: segment {number}: expected the spike trains of the first segment in their order, because some have neither"
                f" name nor id: {first}, got {names}; name them"
            )
        places = range(len(names))
        if named and len(segments) > 1:
            _refuse_other_units(number, names, first)
            places = [first.index(name) for name in names]
        trains += zip(segment.spiketrains, places)
    return [str(k) if name is None else name for k, name in enumerate(first)], trains


def _refuse_other_units(number, names, first):
    """ValueError if spike trains of a segment cannot be matched with those of the first by name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"neo: segment {number}: expected one spike train per unit, got several named {twice!r}; rename them")
    other = sorted(set(first) ^ set(names))
    if other:
        here, there = ("the first", f"segment {number}") if other[0] in first else (f"segment {number}", "the first")
        raise ValueError(
            f"neo: expected the same units in every segment, got a spike train {other[0]!r} in {here} that {there} lacks; leave it"
            " out, or add an empty one"
        )


def _epochs(segments, names):
    """Intervals of the epochs of these names, and their labels."""
    epochs = [epoch for segment in segments for epoch in segment.epochs]
    for name in names:
        found = [epoch for epoch in epochs if epoch.name == name]
        if not found:
            known = ", ".join(sorted({repr(epoch.name) for epoch in epochs})) or "none"
            raise ValueError(f"neo: trials: expected the name of an epoch, one of {known}, got {name!r}")
        for epoch in found:
            starts, labels = _seconds(epoch.times), [str(label) for label in epoch.labels]
            bounds = np.column_stack([starts, starts + _seconds(epoch.durations)])
            yield bounds, labels if len(labels) == len(bounds) else [name] * len(bounds)


def _ordered(tables):
    """All tables of trials in the order of time: (n, 2) seconds, and the condition of each."""
    tables = list(tables)
    bounds = np.vstack([bounds for bounds, _ in tables])
    conditions = [condition for _, of in tables for condition in of]
    order = np.argsort(bounds[:, 0], kind="stable")
    bounds = bounds[order]
    overlap = np.flatnonzero(bounds[1:, 0] < bounds[:-1, 1] - 1e-9)
    if len(overlap):
        one, next_one = bounds[overlap[0]], bounds[overlap[0] + 1]
        raise ValueError(
            f"trials: expected trials that do not overlap, got {one[0]} to {one[1]} s and {next_one[0]} to {next_one[1]} s; give the"
            " tables one at a time"
        )
    return bounds, [conditions[k] for k in order]


def _tables(trials):
    """Intervals of pynapple: one set, several, or one per condition."""
    if hasattr(trials, "items") and not hasattr(trials, "start"):
        named = list(trials.items())
    elif hasattr(trials, "start"):
        named = [(None, trials)]
    else:
        named = [(str(number), table) for number, table in enumerate(trials)]
    if not named:
        raise ValueError("trials: expected at least one IntervalSet, got none")
    for name, table in named:
        bounds = seconds_of(table, "trials")
        conditions = [name] * len(bounds)
        if name is None and "condition" in getattr(table, "metadata_columns", []):
            conditions = [str(condition) for condition in table["condition"]]
        yield bounds, conditions


def seconds_of(intervals, name):
    """Intervals (start, stop) in seconds, (n, 2): of pynapple, or of an array."""
    if hasattr(intervals, "start") and hasattr(intervals, "end"):
        intervals = np.column_stack([intervals.start, intervals.end])
    try:
        bounds = np.asarray(intervals, float)
    except (TypeError, ValueError):
        bounds = None
    if bounds is not None and bounds.size == 0:
        return np.empty((0, 2))
    if bounds is None or bounds.ndim != 2 or bounds.shape[1] != 2:
        raise TypeError(f"{name}: expected intervals (start, stop) in seconds, (n, 2), or an IntervalSet, got {type(intervals).__name__}")
    bad = np.flatnonzero(~(bounds[:, 0] < bounds[:, 1]))
    if len(bad):
        raise ValueError(f"{name}: [{bad[0]}] = {bounds[bad[0]].tolist()}: expected a start before its stop, in seconds")
    return bounds[np.argsort(bounds[:, 0], kind="stable")]


def masked(recording, intervals):
    """See `Recording.mask`."""
    bounds, tick = seconds_of(intervals, "mask"), recording.tick_seconds
    # A tick of which any part is masked is out.
    starts = np.floor(bounds[:, 0] / tick + 1e-6).astype(np.int64)
    stops = np.ceil(bounds[:, 1] / tick - 1e-6).astype(np.int64)
    left = []
    for start, stop in recording.segments.tolist():
        for out, back in zip(starts, stops):
            if back <= start or out >= stop:
                continue
            if out > start:
                left.append((start, int(out)))
            start = max(start, int(back))
        if start < stop:
            left.append((start, stop))
    if not left:
        raise ValueError("mask: expected some time outside the intervals, got none: they cover every trial")
    return recording.with_trials(left)


def restricted(recording, intervals):
    """See `Recording.restrict`."""
    bounds, tick = seconds_of(intervals, "restrict"), recording.tick_seconds
    # A tick has to be inside whole.
    starts = np.ceil(bounds[:, 0] / tick - 1e-6).astype(np.int64)
    stops = np.floor(bounds[:, 1] / tick + 1e-6).astype(np.int64)
    left = []
    for start, stop in recording.segments.tolist():
        for inside, end in zip(starts, stops):
            inside, end = max(start, int(inside)), min(stop, int(end))
            if inside < end:
                left.append((inside, end))
                start = end
    if not left:
        raise ValueError("restrict: expected some time of a trial inside the intervals, got none")
    return recording.with_trials(left)


def _cut(bounds, conditions, support, what):
    """Trials without the times between the intervals of `support`, in which nothing was recorded."""
    kept, of = [], []
    for (start, stop), condition in zip(bounds.tolist(), conditions):
        for begin, end in support.tolist():
            if max(start, begin) < min(stop, end):
                kept.append((max(start, begin), min(stop, end)))
                of.append(condition)
    kept = np.array(kept, float).reshape(-1, 2)
    if not len(kept):
        raise ValueError(f"trials: expected some inside {what}, got none")
    lost = float((bounds[:, 1] - bounds[:, 0]).sum() - (kept[:, 1] - kept[:, 0]).sum())
    if lost > 1e-6:
        warn(f"trials: {lost:.6g} s lie outside {what}, where nothing was recorded: they are left out of the trials")
    return kept, of


def from_labelled(counts, step_seconds, behavior):
    """See `Recording.from_pandas` and `Recording.from_xarray`."""
    polars = _labels.is_polars(counts)
    if not (_labels.is_frame(counts) or _labels.is_xarray(counts) or polars):
        raise TypeError(f"counts: expected a DataFrame or a DataArray, got {type(counts).__name__}; Recording.from_counts takes arrays")
    counts = _labels.oriented("counts", counts)
    if _labels.is_xarray(counts) and counts.ndim != 2:
        raise ValueError(f"counts: expected two dimensions, (time, channel), got {tuple(map(str, counts.dims))}")
    values = np.asarray(_labels.plain(counts))
    at, unit = (None, None) if polars else _labels.times(counts)
    if step_seconds is None:
        step_seconds = _spacing(counts, at, unit)
    if _labels.is_xarray(counts):
        names = _labels.coordinate(counts, counts.dims[-1])
    else:
        names = [str(name) for name in counts.columns]
    trials, runs = _labels.trials(counts), np.array([[0, len(values)]])
    if trials is not None:
        runs, _ = _labels.runs(trials)
        _labels.warn_of_missing(trials, runs)
    ticks, runs = _rows_on_ticks(at, runs, len(values))
    more = dict(segments=runs.tolist())
    if behavior is not None:
        behavior = _labels.oriented("behavior", behavior)
        _refuse_other_rows(counts, behavior)
        outputs, units = _labels.outputs(behavior, None, None)
        values_of = np.asarray(_labels.plain(behavior), np.float32)
        more |= dict(behavior=values_of, behavior_names=outputs, behavior_units=units)
    recording = Recording.from_counts(values, step_seconds, channel_names=names, **more)
    return recording if ticks is None else _spread(recording, ticks)


def _spacing(counts, at, unit):
    """Seconds from one row to the next, of rows at these times."""
    time = repr(counts.dims[0]) if _labels.is_xarray(counts) else "counts"
    if at is None or len(at) < 2:
        raise ValueError(f"step_seconds: expected seconds, because {time} has no coordinate to take them from; got None")
    if unit is None:
        raise ValueError(f"step_seconds: expected seconds, because the unit of the times of {time} is not known; got None")
    steps = np.diff(at)
    # Trials may lie apart; inside of them time has one step.
    step = float(np.median(steps))
    if not (step > 0 and np.mean(np.abs(steps - step) < 1e-3 * step) > 0.5):
        raise ValueError(f"step_seconds: expected seconds, because the times of {time} are not evenly spaced; got None")
    return float(f"{step * unit:.9g}")


def _rows_on_ticks(at, runs, rows):
    """The tick of each row, or None where rows follow each other; and runs of rows that do, cut at gaps.

    Times that step back from one trial to the next belong to the trial: its rows follow those before it.
    """
    if at is None or rows < 2:
        return None, runs
    steps = np.diff(at)
    step = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    inside = np.zeros(rows - 1, bool)
    for start, stop in runs.tolist():
        inside[start : stop - 1] = True
    back = np.flatnonzero(inside & ~(steps > 0))
    if len(back):
        row = int(back[0])
        raise ValueError(
            f"counts: expected times that ascend in a trial, got {at[row]:.9g} in row {row} and {at[row + 1]:.9g} in the next; a"
            ' coordinate or an index level "trial" tells trials apart'
        )
    ahead = np.ones(rows - 1, np.int64)
    forward = steps > 0
    ahead[forward] = np.maximum(np.round(steps[forward] / step), 1)
    cuts = np.flatnonzero(inside & (ahead > 1)) + 1
    pieces = [piece for start, stop in runs.tolist() for piece in _pieces(start, stop, cuts)]
    runs = np.array(pieces, np.int64).reshape(-1, 2)
    return (np.r_[0, np.cumsum(ahead)] if (ahead > 1).any() else None), runs


def _pieces(start, stop, cuts):
    """[start, stop) cut at these rows."""
    edges = [start, *cuts[(cuts > start) & (cuts < stop)].tolist(), stop]
    return zip(edges[:-1], edges[1:])


def _spread(recording, ticks):
    """The recording whose row k lies on tick `ticks[k]`: time between rows that do not follow each other is in no trial."""
    make, (parts,) = recording.__reduce__()
    parts["segments"] = np.column_stack([ticks[recording.segments[:, 0]], ticks[recording.segments[:, 1] - 1] + 1]).tolist()
    parts["spike_ticks"], parts["ticks"] = ticks[recording.spike_ticks], int(ticks[-1]) + 1
    if recording.behavior is not None:
        # Without times, a sample belongs to the end of its bin.
        parts["behavior_times"] = (ticks + 1) * recording.tick_seconds
    return make(parts)


def _refuse_other_rows(counts, behavior):
    """ValueError if counts and behaviour say that their rows are not those of the same times."""
    if _labels.is_polars(counts) or not (_labels.is_frame(behavior) or _labels.is_xarray(behavior)):
        return
    (one, _), (other, _) = _labels.times(counts), _labels.times(behavior)
    if one is None or other is None or len(one) != len(other):
        return  # Another number of rows is refused with the recording.
    apart = np.flatnonzero(~(np.abs(one - other) <= 1e-6 + 1e-9 * np.abs(one)))
    if len(apart):
        row = int(apart[0])
        raise ValueError(
            f"behavior: expected the times of counts, got {other[row]:.9g} beside {one[row]:.9g} in row {row}; select the same"
            " times, or interpolate one at those of the other"
        )


def _inside(data):
    """Steps inside segments, and the number of the segment of each."""
    steps = np.concatenate([np.arange(start, stop) for start, stop in data.segments])
    trials = np.repeat(np.arange(len(data.segments)), [stop - start for start, stop in data.segments])
    return steps, trials


def to_pandas(data):
    """See `Dataset.to_pandas`."""
    import pandas

    steps, trials = _inside(data)
    index = pandas.MultiIndex.from_arrays([trials, steps * data.step_seconds], names=["trial", "time"])
    counts = pandas.DataFrame(data.counts()[steps], index=index, columns=data.channel_names)
    behavior = pandas.DataFrame(data.behavior[steps] if data.output_names else None, index=index, columns=data.output_names)
    behavior.attrs["units"] = dict(zip(data.output_names, data.output_units))
    return counts, behavior


def to_xarray(data):
    """See `Dataset.to_xarray`."""
    import xarray

    steps, trials = _inside(data)
    variables = {"counts": (("time", "channel"), data.counts()[steps])}
    coords = {"time": steps * data.step_seconds, "trial": ("time", trials), "channel": data.channel_names}
    if data.output_names:
        attrs = {"units": dict(zip(data.output_names, data.output_units))}
        variables["behavior"] = (("time", "output"), data.behavior[steps], attrs)
        coords["output"] = data.output_names
    return xarray.Dataset(variables, coords)


def from_pynapple(units, behavior, trials, mask, tick_seconds):
    """See `Recording.from_pynapple`."""
    if not (hasattr(units, "index") and hasattr(units, "time_support")):
        raise TypeError(f"units: expected a pynapple.TsGroup, got {type(units).__name__}")
    names = [str(unit) for unit in units.index]
    trains = [np.asarray(units[unit].index.values, float) for unit in units.index]
    bounds, conditions = _ordered(_tables(units.time_support if trials is None else trials))
    if trials is not None:
        bounds, conditions = _cut(bounds, conditions, _support(units, trains), "the time support of units")
    origin = min(0.0, bounds.min(initial=0.0))
    joined = None
    if behavior is not None:
        values = np.asarray(behavior.values, np.float32).reshape(len(behavior), -1)
        columns = getattr(behavior, "columns", None)
        if columns is None:
            columns = ["behavior"] if values.shape[1] == 1 else [f"behavior{k}" for k in range(values.shape[1])]
        joined = (values, np.asarray(behavior.index.values, float) - origin, [str(c) for c in columns], None)
    channels = [np.full(len(train), channel, np.uint32) for channel, train in enumerate(trains)]
    times = np.concatenate(trains) - origin
    recording = _recording(times, np.concatenate(channels), tick_seconds, names, bounds - origin, joined, conditions)
    return recording if mask is None else masked(recording, seconds_of(mask, "mask") - origin)


def _support(units, trains):
    """Intervals in which units were recorded. A support that pynapple took from the first and the last spike says nothing of
    the time before and after.
    """
    support = seconds_of(units.time_support, "time_support")
    spikes = np.concatenate(trains)
    if len(spikes) and len(support):
        if support[0, 0] >= spikes.min():
            support[0, 0] = -np.inf
        if support[-1, 1] <= spikes.max():
            support[-1, 1] = np.inf
    return support


def _recording(times, channels, tick_seconds, names, bounds, behavior, conditions=None):
    """Times in seconds on a grid of ticks; a spike belongs to the tick that covers it."""
    order = np.argsort(times, kind="stable")
    if not np.isfinite(times).all():
        raise ValueError("spike times: expected finite ones, got NaN or infinity")
    if len(times) and times[order[0]] < 0:
        raise ValueError(f"spike times: expected none before the start, got one at {times[order[0]]} s")
    ticks = np.floor(times[order] / tick_seconds + 1e-6).astype(np.int64)
    segments = np.round(bounds / tick_seconds).astype(np.int64)
    # A spike at the very end belongs to the last tick.
    stop = int(segments.max())
    ticks[ticks == stop] -= 1
    more = {}
    if conditions is not None and any(condition is not None for condition in conditions):
        more["meta"] = json.dumps({"conditions": conditions})
    if behavior is not None:
        values, at, columns, units = behavior
        more |= dict(behavior=values, behavior_times=at, behavior_names=columns, behavior_units=units)
    return Recording.from_spikes(
        ticks,
        channels[order],
        tick_seconds,
        duration_ticks=max(stop, int(ticks.max(initial=-1)) + 1),
        channel_names=names,
        segments=segments.tolist(),
        **more,
    )


def _seconds(quantity):
    """A quantity of time, whatever its unit, in seconds."""
    return np.asarray(quantity.rescale("s").magnitude, float)


def _train_name(train):
    """Name or id of a spike train; None without either."""
    name = train.name or train.annotations.get("id")
    return None if name is None else str(name)


def _signal(segment, name, number):
    signals = [*segment.analogsignals, *segment.irregularlysampledsignals]
    for signal in signals:
        if signal.name == name:
            return signal
    known = ", ".join(repr(signal.name) for signal in signals) or "none"
    raise ValueError(f"neo: segment {number}: expected a signal named {name!r}, got {known}")


def _across(segments, name, origin):
    """A signal of all segments, in the unit of the first: its name, values (samples, columns), times and unit."""
    signals = [_signal(segment, name, number) for number, segment in enumerate(segments)]
    unit, values = signals[0].units, []
    for number, signal in enumerate(signals):
        try:
            array = np.asarray(signal.rescale(unit).magnitude, np.float32)
        except ValueError:
            raise ValueError(
                f"neo: segment {number}: expected {name!r} in {unit.dimensionality}, as in the first, got {signal.dimensionality}"
            ) from None
        array = array.reshape(len(array), -1)
        if values and array.shape[1] != values[0].shape[1]:
            raise ValueError(
                f"neo: segment {number}: expected {values[0].shape[1]} columns of {name!r}, as in the first, got {array.shape[1]}"
            )
        values.append(array)
    times = np.concatenate([_seconds(signal.times) - origin for signal in signals])
    return name, np.concatenate(values), times, str(unit.dimensionality)


def _joined(signals):
    """Signals side by side, if their times are the same; None without any."""
    if not signals:
        return None
    first, _, at, _ = signals[0]
    values, columns, units = [], [], []
    for name, wide, times, unit in signals:
        if len(times) != len(at):
            raise ValueError(
                f"neo: behavior: expected {first!r} and {name!r} to be sampled at the same times, got {len(at)} and {len(times)}"
                " samples; resample one of them"
            )
        apart = float(np.abs(times - at).max(initial=0.0))
        # Times of the same clock differ by rounding alone.
        if not apart <= 1e-6:
            raise ValueError(
                f"neo: behavior: expected {first!r} and {name!r} to be sampled at the same times, got some that are {apart:.3g} s"
                " apart; resample one of them"
            )
        values.append(wide)
        columns += [name] if wide.shape[1] == 1 else [f"{name}{k}" for k in range(wide.shape[1])]
        units += [unit] * wide.shape[1]
    return np.hstack(values), at, columns, units
