"""Recordings from other packages' objects: whatever they hold becomes ticks, channels, samples."""

import json

import numpy as np

from . import _labels
from ._core import Recording


def from_neo(neo, behavior, trials, tick_seconds):
    """See `Recording.from_neo`."""
    if not (hasattr(neo, "segments") or hasattr(neo, "spiketrains")):
        raise TypeError(f"neo: expected a neo.Block or neo.Segment, got {type(neo).__name__}")
    segments = getattr(neo, "segments", None) or [neo]
    names = [_train_name(train, k) for k, train in enumerate(segments[0].spiketrains)]
    starts = np.array([_seconds(segment.t_start) for segment in segments])
    stops = np.array([_seconds(segment.t_stop) for segment in segments])
    if (starts[1:] < stops[:-1] - tick_seconds / 2).any():
        raise ValueError("neo: expected segments one after the other, got some that overlap")
    origin = starts[0]
    times, channels, samples, sample_times = [], [], [], []
    for number, segment in enumerate(segments):
        if len(segment.spiketrains) != len(names):
            raise ValueError(
                f"neo: segment {number}: expected {len(names)} spike trains as in the first, got {len(segment.spiketrains)}"
            )
        for channel, train in enumerate(segment.spiketrains):
            times.append(_seconds(train.times) - origin)
            channels.append(np.full(len(train), channel, np.uint32))
        for wanted in [behavior] if isinstance(behavior, str) else behavior or []:
            signal = _signal(segment, wanted, number)
            samples.append((wanted, np.asarray(signal.magnitude, np.float32), str(signal.dimensionality)))
            sample_times.append((wanted, _seconds(signal.times) - origin))
    bounds, conditions = np.column_stack([starts, stops]), None
    if trials is not None:
        bounds, conditions = _ordered(_epochs(segments, [trials] if isinstance(trials, str) else trials))
    return _recording(
        np.concatenate(times),
        np.concatenate(channels),
        tick_seconds,
        names,
        bounds - origin,
        _joined(samples, sample_times),
        conditions,
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


def from_labelled(counts, step_seconds, behavior):
    """See `Recording.from_pandas` and `Recording.from_xarray`."""
    if not (_labels.is_frame(counts) or _labels.is_xarray(counts)):
        raise TypeError(f"counts: expected a DataFrame or a DataArray, got {type(counts).__name__}; Recording.from_counts takes arrays")
    values = np.asarray(counts)
    if step_seconds is None:
        step_seconds = _spacing(counts)
    if _labels.is_frame(counts):
        names = [str(name) for name in counts.columns]
    else:
        names = _labels.coordinate(counts, counts.dims[-1])
    trials, more = _labels.trials(counts), {}
    if trials is not None:
        cuts = np.flatnonzero(trials[1:] != trials[:-1]) + 1
        more["segments"] = np.column_stack([np.r_[0, cuts], np.r_[cuts, len(values)]]).tolist()
    if behavior is not None:
        outputs, units = _labels.outputs(behavior, None, None)
        more |= dict(behavior=np.asarray(behavior, np.float32), behavior_names=outputs, behavior_units=units)
    return Recording.from_counts(values, step_seconds, channel_names=names, **more)


def _spacing(counts):
    """Seconds from one time of a DataArray to the next."""
    time = counts.dims[0]
    if time not in counts.coords or len(counts) < 2:
        raise ValueError(f"step_seconds: expected seconds, because {time!r} has no coordinate to take them from; got None")
    at = np.asarray(counts.coords[time])
    steps = np.diff(at) / (np.timedelta64(1, "s") if at.dtype.kind in "mM" else 1.0)
    # Trials may lie apart; inside of them time has one step.
    step = float(np.median(steps))
    if not (step > 0 and np.mean(np.abs(steps - step) < 1e-3 * step) > 0.5):
        raise ValueError(f"step_seconds: expected seconds, because the times of {time!r} are not evenly spaced; got None")
    return float(f"{step:.9g}")


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
    origin = min(0.0, bounds.min(initial=0.0))
    joined = None
    if behavior is not None:
        values = np.asarray(behavior.values, np.float32).reshape(len(behavior), -1)
        columns = getattr(behavior, "columns", None)
        if columns is None:
            columns = ["behavior"]
        joined = (values, np.asarray(behavior.index.values, float) - origin, [str(c) for c in columns], None)
    channels = [np.full(len(train), channel, np.uint32) for channel, train in enumerate(trains)]
    times = np.concatenate(trains) - origin
    recording = _recording(times, np.concatenate(channels), tick_seconds, names, bounds - origin, joined, conditions)
    return recording if mask is None else masked(recording, seconds_of(mask, "mask") - origin)


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
        more = dict(behavior=values, behavior_times=at, behavior_names=columns, behavior_units=units)
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


def _train_name(train, number):
    return str(train.name or train.annotations.get("id", number))


def _signal(segment, name, number):
    signals = [*segment.analogsignals, *segment.irregularlysampledsignals]
    for signal in signals:
        if signal.name == name:
            return signal
    known = ", ".join(repr(signal.name) for signal in signals) or "none"
    raise ValueError(f"neo: segment {number}: expected a signal named {name!r}, got {known}")


def _joined(samples, times):
    """Signals of all segments, beside each other where their times are the same."""
    if not samples:
        return None
    order = list(dict.fromkeys(name for name, *_ in samples))
    at = [np.concatenate([t for name, t in times if name == wanted]) for wanted in order]
    if any(len(other) != len(at[0]) or not np.allclose(other, at[0]) for other in at[1:]):
        raise ValueError(f"neo: behavior: expected {', '.join(order)} to be sampled at the same times")
    columns, units, values = [], [], []
    for wanted in order:
        parts = [(v.reshape(len(v), -1), unit) for name, v, unit in samples if name == wanted]
        wide = np.concatenate([v for v, _ in parts])
        values.append(wide)
        columns += [wanted] if wide.shape[1] == 1 else [f"{wanted}{k}" for k in range(wide.shape[1])]
        units += [parts[0][1]] * wide.shape[1]
    return np.hstack(values), at[0], columns, units
