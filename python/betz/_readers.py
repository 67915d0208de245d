"""Recordings from other packages' objects: whatever they hold becomes ticks, channels, samples."""

import numpy as np

from ._core import Recording


def from_neo(neo, behavior, tick_seconds):
    """See `Recording.from_neo`."""
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
    return _recording(
        np.concatenate(times),
        np.concatenate(channels),
        tick_seconds,
        names,
        np.column_stack([starts, stops]) - origin,
        _joined(samples, sample_times),
    )


def from_pynapple(units, behavior, trials, tick_seconds):
    """See `Recording.from_pynapple`."""
    names = [str(unit) for unit in units.index]
    trains = [np.asarray(units[unit].index.values, float) for unit in units.index]
    support = units.time_support if trials is None else trials
    bounds = np.column_stack([support.start, support.end])
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
    return _recording(times, np.concatenate(channels), tick_seconds, names, bounds - origin, joined)


def _recording(times, channels, tick_seconds, names, bounds, behavior):
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
