"""Spiking networks in Python: populations, projections, plasticity and stimuli by name.

>>> import betz
>>> network = betz.spiking.Network(step_ms=0.1, seed=1)
>>> noise = network.population("noise", 100, "poisson", rate_hz=200.0)
>>> cells = network.population("cells", 50, "adex", synapse=betz.spiking.conductance("ampa"),
...                            c_m_pf={"median": 281, "log_sd": 0.1})
>>> _ = network.project(noise, cells, {"fixed_in": {"count": 50}}, weight=4.0, delay_ms=1.5)
>>> engine = network.build(traces=[cells.first])
>>> engine.run(0.5)
>>> engine.rates()["cells"] > 1
True
>>> engine.recording().channels
150

A parameter is a number, or how to draw it for each neuron: {"low": 1, "high": 2} (uniform), {"mean": 1, "sd": 0.1} (normal),
{"median": 1, "log_sd": 0.1} (log-normal); "low" and "high" beside the latter two are bounds. A list or an array has one value per
neuron. `models()` lists the models and their parameters. The same seed gives the same spikes on any number of threads.
"""

import json
import math
import os

from ._core import SpikingEngine, neuron_models
from ._sonata import SonataNetwork, read_sonata

__all__ = [
    "Network",
    "Population",
    "SonataNetwork",
    "SpikingEngine",
    "conductance",
    "delta",
    "exponential",
    "models",
    "read_sonata",
    "stdp",
]


class Population:
    """Neurons of one kind; `Network.population` makes it. `first` is the number of its first neuron in the network."""

    def __init__(self, name, neurons, first, number):
        self.name, self.neurons, self.first, self.number = name, neurons, first, number

    def __repr__(self):
        return f"Population({self.name!r}, {self.neurons} neurons from {self.first})"


class Network:
    """A network that is described step by step, and built by `build`.

    Parameters
    ----------
    step_ms : float
        Length of a step in ms.
    seed : int
        All that is drawn follows from it.
    """

    def __init__(self, step_ms=0.1, seed=0):
        self._description = {"step_ms": step_ms, "seed": seed, "populations": [], "projections": []}
        self._neurons = 0

    def population(
        self, name, neurons, model="lif", *, synapse=None, start_mv=None, poisson=None, current_pa=None, tuning=None, **parameters
    ):
        """Adds neurons of `model`: a name of `models()`, "poisson" (rate_hz), "spikes" (trains_ms) or "source".

        `synapse` is `delta()`, `exponential(...)` or `conductance(...)`; `poisson` a pair (rate in Hz, weight), or a triple
        with the channel's name; `start_mv` the potential at the start; the other keywords are the model's parameters.
        `tuning` is {"gain_pa": ..., "offset_pa": ..., "direction_deg": ...}: currents by the movement that
        `SpikingEngine.follow` gives.
        """
        if current_pa is not None:
            parameters["current_pa"] = current_pa
        parameters = {key: _named(f"{name}: {key}", value) for key, value in parameters.items()}
        given = {
            "name": name,
            "neurons": neurons,
            "neuron": "source" if model == "source" and not parameters else {model: parameters},
            "synapse": synapse,
            "start_mv": _named(f"{name}: start_mv", start_mv),
            "tuning": _named(f"{name}: tuning", tuning),
        }
        if poisson is not None:
            rate_hz, weight, *receptor = poisson
            if hasattr(rate_hz, "__len__"):
                raise TypeError(f'{name}: poisson: expected one rate; a rate per neuron needs the model "poisson"')
            given["poisson"] = {"rate_hz": _plain(rate_hz), "weight": _plain(weight)}
            given["poisson_receptor"] = receptor[0] if receptor else None
        self._description["populations"].append({k: v for k, v in given.items() if v is not None})
        made = Population(name, neurons, self._neurons, len(self._description["populations"]) - 1)
        self._neurons += neurons
        return made

    def project(
        self, source, target, rule, weight=0.0, delay_ms=None, *, receptor=None, plasticity=None, autapses=True
    ):
        """Adds synapses, and returns the projection's number, for `SpikingEngine.synapses`.

        `rule` is "all", "ring", "one_to_one", {"fixed_in": {"count": N}}, {"fixed_out": {"count": N}}, {"fixed_total":
        {"count": N}} or {"pairwise": {"probability": P}}; `receptor` a channel of the target; `plasticity` as by `stdp`.
        """
        given = {
            "source": getattr(source, "name", source),
            "target": getattr(target, "name", target),
            "rule": rule,
            "weight": weight,
            "delay_ms": self._description["step_ms"] if delay_ms is None else delay_ms,
            "receptor": receptor,
            "plasticity": plasticity,
            "autapses": autapses,
        }
        self._description["projections"].append({k: v for k, v in given.items() if v is not None})
        return len(self._description["projections"]) - 1

    def json(self):
        """The description, as `betz simulate --spec` reads it."""
        return json.dumps(self._description, indent=2)

    def save(self, path):
        """Writes the description to a file."""
        with open(os.fspath(path), "w", encoding="utf-8") as file:
            file.write(self.json() + "\n")

    def build(self, *, threads=1, record=10_000_000, traces=(), device="cpu", progress=None):
        """Builds the network, a `SpikingEngine`: the first `record` spikes and the potentials of `traces` are kept."""
        return SpikingEngine(
            json.dumps(self._description),
            threads=threads,
            record=record,
            traces=[int(neuron) for neuron in traces],
            device=device,
            progress=progress,
        )

    def __repr__(self):
        parts = len(self._description["populations"]), len(self._description["projections"])
        return f"Network({self._neurons} neurons in {parts[0]} populations, {parts[1]} projections)"


def _named(what, value):
    """As `_plain`, with `what` in front of its errors."""
    try:
        return _plain(value)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def _plain(value):
    """Arrays and their numbers, also within lists and dictionaries, as JSON takes them."""
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected finite numbers, got {value}")
    return value


def delta():
    """The potential jumps by the weight in mV."""
    return "delta"


def exponential(tau_ms, tau_inhibitory_ms=None, *, arrival="end"):
    """A current that decays with `tau_ms`; negative weights decay with `tau_inhibitory_ms`, if given."""
    return {"exponential": {"tau_ms": tau_ms, "tau_inhibitory_ms": tau_inhibitory_ms, "arrival": arrival}}


def conductance(*names, arrival="end", **channels):
    """Conductances: channels by name ("ampa", "nmda", "gaba_a", "gaba_b"), or with constants, ampa={"tau_decay_ms": 2}."""
    return {"conductance": {"channels": {**{name: {} for name in names}, **channels}, "arrival": arrival}}


def stdp(a_plus, a_minus, high, *, triplet=None, reward=None, **more):
    """Weights that learn from spikes, up to `high`; further fields as docs/spiking.md lists them."""
    given = {"a_plus": a_plus, "a_minus": a_minus, "high": high, "triplet": triplet, "reward": reward, **more}
    return {k: v for k, v in given.items() if v is not None}


def models():
    """Neuron models by name: their equations, and their parameters with default, least and largest value and meaning.

    >>> import betz
    >>> sorted(betz.spiking.models())
    ['adex', 'hh', 'izhikevich', 'lif', 'qif', 'theta']
    """
    names = ("default", "low", "high", "meaning")
    return {
        name: {"equations": text, "parameters": {p[0]: dict(zip(names, p[1:], strict=True)) for p in parameters}}
        for name, (text, parameters) in neuron_models().items()
    }
