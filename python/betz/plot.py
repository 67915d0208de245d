"""Pictures of recordings, models and results, with matplotlib: `pip install matplotlib`.

Every function draws on `ax`, or on the current axes if it is None, and returns the axes. Times are in seconds.

>>> import betz
>>> train, test = betz.simulate.population(neurons=20, train_seconds=4, test_seconds=1, seed=1)
>>> ax = betz.plot.raster(train, seconds=(0, 2))            # doctest: +SKIP
"""

import numpy as np

from . import look
from ._core import Recording

# Of Okabe and Ito's palette, which stays apart in every kind of colour blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_FAINT = "#e2e4e9"


def _axes(ax, polar=False):
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("betz.plot: expected matplotlib, which is not installed: pip install matplotlib") from error
    return pyplot.gcf().add_subplot(projection="polar") if polar else pyplot.gca()


def _channels(recording, channels):
    """Numbers of channels that are given by name or number; None: all."""
    names = recording.channel_names
    if channels is None:
        return list(range(len(names)))
    numbers = []
    for channel in [channels] if isinstance(channels, (str, int)) else channels:
        if isinstance(channel, str) and channel not in names:
            raise ValueError(f"channels: expected names such as {', '.join(names[:5])}, got {channel!r}")
        number = names.index(channel) if isinstance(channel, str) else int(channel)
        if not 0 <= number < len(names):
            raise ValueError(f"channels: expected numbers from 0 to {len(names) - 1}, got {channel}")
        numbers.append(number)
    return numbers


def _note(ax, words):
    """Small words below the title: what is not shown."""
    ax.set_title(words, loc="right", fontsize="x-small", color="#555555")


def raster(recording, *, channels=None, seconds=None, most=100, ax=None):
    """Spikes of `channels` (names or numbers; None: the first `most`) in `seconds` (from, until; None: the first ten).

    The starts of trials are thin lines, and time in no trial is shaded.
    """
    _recording("raster", recording)
    ax = _axes(ax)
    shown = _channels(recording, channels)
    left_out, shown = len(shown) - min(len(shown), most), shown[:most]
    tick = recording.tick_seconds
    start, stop = (0.0, min(10.0, recording.seconds)) if seconds is None else seconds
    if not start < stop:
        raise ValueError(f"seconds: expected a start before its stop, got {start} and {stop}")
    first, last = np.searchsorted(recording.spike_ticks, [start / tick, stop / tick])
    times, of = recording.spike_ticks[first:last] * tick, recording.spike_channels[first:last]
    ax.eventplot([times[of == channel] for channel in shown], colors=COLORS[0], linewidths=0.7, linelengths=0.8)
    before = start
    for begin, end in recording.segments * tick:
        if begin > before:
            ax.axvspan(before, min(begin, stop), color=_FAINT, linewidth=0)
        if start < begin < stop:
            ax.axvline(begin, color="#9a9ca3", linewidth=0.5)
        before = max(before, end)
        if begin >= stop:
            break
    if before < stop:
        ax.axvspan(before, stop, color=_FAINT, linewidth=0)
    ax.set(xlim=(start, stop), ylim=(len(shown) - 0.5, -0.5), xlabel="time (s)", ylabel="channel")
    if len(shown) <= 20:
        ax.set_yticks(range(len(shown)), [recording.channel_names[channel] for channel in shown])
    if left_out:
        _note(ax, f"{len(shown)} of {len(shown) + left_out} channels")
    return ax


def _recording(where, recording):
    if not isinstance(recording, Recording):
        raise TypeError(f"{where}: recording: expected a betz.Recording, got {type(recording).__name__}")


def tuning(data, variable, *, channels=None, most=4, ax=None, **more):
    """Firing rates of `channels` (None: the `most` that tell most, in bits per spike) by behaviour; a map of one channel.

    `variable` and the further keywords are those of `betz.look.tuning`.
    """
    found = look.tuning(data, variable, channels=channels, **more)
    if channels is None:
        order = np.argsort(-np.nan_to_num(found["bits_per_spike"]), kind="stable")[:most]
    else:
        order = np.arange(len(found["channels"]))
    if not len(order):
        raise ValueError("tuning: expected at least one channel, got none")
    ax = _axes(ax)
    axes = found["axes"]
    if len(axes) == 2:
        x, y = axes
        rates = found["rate_hz"][order[0]].reshape(len(x["edges"]) - 1, len(y["edges"]) - 1)
        mesh = ax.pcolormesh(x["edges"], y["edges"], rates.T, cmap="viridis")
        ax.figure.colorbar(mesh, ax=ax, label=f"{found['channels'][order[0]]} (Hz)")
        ax.set(xlabel=_labelled(x["name"], x["unit"]), ylabel=_labelled(y["name"], y["unit"]))
        return ax
    for number, channel in enumerate(order):
        color = COLORS[number % len(COLORS)]
        ax.plot(axes[0]["centres"], found["rate_hz"][channel], "o-", color=color, markersize=3, label=found["channels"][channel])
    ax.set(xlabel=_labelled(axes[0]["name"], axes[0]["unit"]), ylabel="rate (Hz)")
    ax.set_ylim(bottom=0)
    ax.legend(fontsize="small")
    if len(order) < len(found["channels"]):
        _note(ax, f"{len(order)} of {len(found['channels'])} channels")
    return ax


def _labelled(name, unit):
    return f"{name} ({unit})" if unit else name


def psth(recording, events=None, *, channels=None, most=4, ax=None, **more):
    """Mean rates around events and their standard errors; arguments are those of `betz.look.psth`."""
    found = look.psth(recording, events, channels=channels, **more)
    order = np.arange(len(found["channels"]))
    if channels is None:
        order = np.argsort(-np.ptp(found["mean_hz"], axis=1), kind="stable")[:most]
    ax = _axes(ax)
    for number, row in enumerate(order):
        mean, error, color = found["mean_hz"][row], found["error_hz"][row], COLORS[number % len(COLORS)]
        ax.plot(found["times"], mean, color=color, label=found["channels"][row])
        ax.fill_between(found["times"], mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
    ax.axvline(0, color="#9a9ca3", linewidth=0.8)
    ax.set(xlabel="time after the event (s)", ylabel="rate (Hz)")
    ax.legend(fontsize="small")
    return ax


def decoded(decoder, data, *, output=0, seconds=None, ax=None):
    """Estimates against the truth of one `output` (name or number) over `seconds` (from, until; None: the first ten).

    `decoder`: a fitted `betz.Decoder` or a `betz.Model`; `data`: a Recording or a Dataset with behaviour. The estimate is
    drawn at the time that it is an estimate of.
    """
    model = getattr(decoder, "model_", decoder)
    if isinstance(data, Recording):
        data = data.align(model.step_seconds)
    names, step = model.output_names, model.step_seconds
    if isinstance(output, str) and output not in names:
        raise ValueError(f"output: expected one of {', '.join(names)}, got {output!r}")
    number = names.index(output) if isinstance(output, str) else output
    if names[number] not in data.output_names:
        raise ValueError(f"data: expected behaviour {names[number]!r}, got {', '.join(data.output_names) or 'none'}")
    estimates = model.decode(data)[:, number]
    truth = np.full(data.steps, np.nan)
    for start, stop in data.segments:
        truth[start:stop] = data.behavior[start:stop, data.output_names.index(names[number])]
    at = np.arange(data.steps) * step
    first = data.segments[0][0] * step
    start, stop = (first, first + 10.0) if seconds is None else seconds
    ax = _axes(ax)
    ax.plot(at, truth, color="#26282e", linewidth=1.2, label="true")
    ax.plot(at - model.delay_steps * step, estimates, color=COLORS[1], linewidth=1.0, label="decoded")
    ax.set(xlim=(start, min(stop, max(at[-1], start + step))), xlabel="time (s)", ylabel=_labelled(names[number], model.output_units[number]))
    ax.legend(fontsize="small")
    scores = {score["name"]: score["r2"] for score in model.score(data)[0]}
    ax.set_title(f"R² {scores[names[number]]:.3f}", fontsize="medium")
    return ax


def weights(decoder, *, output=0, ax=None):
    """Weights of a linear decoder for one `output` (name or number; a latent's number for other kinds): channels down,
    filters across, blue for negative and red for positive ones."""
    model = getattr(decoder, "model_", decoder)
    names = model.output_names
    if isinstance(output, str):
        if output not in names or model.weights.shape[1] != len(names):
            raise ValueError(f"output: expected one of {', '.join(names)}, or the number of a latent, got {output!r}")
        output = names.index(output)
    if not 0 <= output < model.weights.shape[1]:
        raise ValueError(f"output: expected a number from 0 to {model.weights.shape[1] - 1}, got {output}")
    values = model.weights[:, output].reshape(model.channels, len(model.bank))
    ax = _axes(ax)
    most = np.abs(values).max() or 1.0
    image = ax.imshow(values, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    ax.set_xticks(range(len(model.bank)), [f"{tau:g} s, {order}" for tau, order in model.bank], rotation=45, ha="right")
    if model.channels <= 20:
        ax.set_yticks(range(model.channels), model.channel_names)
    ax.set(xlabel="filter (time constant, order)", ylabel="channel")
    title = names[output] if model.weights.shape[1] == len(names) else f"latent {output}"
    ax.figure.colorbar(image, ax=ax, label=f"weight for {title}")
    return ax


def occurrences(recording, episode):
    """Non-overlapped occurrences of an episode, (n, size) ticks, each the latest start before the earliest end."""
    tick, numbers = recording.tick_seconds, list(episode.numbers)
    trains = [recording.spike_ticks[recording.spike_channels == number] for number in numbers]
    # For every event of the last channel the latest chain that ends there; NumPy finds each step at once.
    chains = trains[0][:, None]
    for train, (low, high) in zip(trains[1:], episode.delays):
        low, high = round(low / tick), round(high / tick)
        # The latest chain whose end lies in [t - high, t - low).
        place = np.searchsorted(chains[:, -1], train - low, side="left") - 1
        fits = place >= 0
        place, train = place[fits], train[fits]
        fits = chains[place, -1] >= train - high
        chains = np.column_stack([chains[place[fits]], train[fits]])
    kept, end = [], -1
    for chain in chains:
        if chain[0] > end:
            kept.append(chain)
            end = chain[-1]
    return np.array(kept, np.int64).reshape(-1, len(numbers))


def episode(recording, found, *, seconds=None, others=10, ax=None):
    """Occurrences of `found`, an episode of `betz.mine`, as lines through the spikes of its channels, which come first;
    `others` of the busiest channels below. `seconds`: from, until; None: about six occurrences."""
    _recording("episode", recording)
    chains = occurrences(recording, found)
    tick, numbers = recording.tick_seconds, list(dict.fromkeys(found.numbers))
    if seconds is None:
        some = chains[: min(6, len(chains))] * tick
        seconds = (some.min() - 0.01, some.max() + 0.01) if len(some) else (0.0, min(1.0, recording.seconds))
    busiest = np.argsort(-np.bincount(recording.spike_channels, minlength=recording.channels), kind="stable")
    rows = numbers + [channel for channel in busiest.tolist() if channel not in numbers][:others]
    ax = raster(recording, channels=rows, seconds=(max(seconds[0], 0.0), seconds[1]), most=len(rows), ax=ax)
    places = [rows.index(number) for number in found.numbers]
    for number, chain in enumerate(chains[(chains[:, -1] * tick >= seconds[0]) & (chains[:, 0] * tick <= seconds[1])]):
        ax.plot(chain * tick, places, "o-", color=COLORS[1], markersize=3, linewidth=1.2)
    ax.set_title(f"{' → '.join(found.channels)}: {found.count} occurrences", fontsize="medium")
    return ax


def network(net, k=0, *, ax=None):
    """Edges of window `k` of a `betz.Network`, its nodes on a circle in the order of their communities, one colour each."""
    if not 0 <= k < len(net):
        raise ValueError(f"k: expected a window from 0 to {len(net) - 1}, got {k}")
    communities = net.communities(k)
    order = np.argsort(communities, kind="stable")
    angle = np.empty(net.nodes)
    angle[order] = np.linspace(0, 2 * np.pi, net.nodes, endpoint=False)
    x, y = np.cos(angle), np.sin(angle)
    ax = _axes(ax)
    edges = slice(int(net.indptr[k]), int(net.indptr[k + 1]))
    for i, j, r in zip(net.i[edges], net.j[edges], net.r[edges]):
        ax.plot(x[[i, j]], y[[i, j]], color=COLORS[1] if r < 0 else "#7f828a", linewidth=0.4 + 1.2 * abs(float(r)), alpha=0.6, zorder=1)
    # Colours recur beyond those that can be told apart, with another shape of the mark.
    shapes = "osD^v"
    for community in np.unique(communities):
        members = communities == community
        shape = shapes[int(community) // len(COLORS) % len(shapes)]
        ax.scatter(x[members], y[members], color=COLORS[int(community) % len(COLORS)], marker=shape, s=28, zorder=2)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.set_title(
        f"window {k}: {edges.stop - edges.start} edges, {len(np.unique(communities))} communities; negative edges orange", fontsize="medium"
    )
    return ax
