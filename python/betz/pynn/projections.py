"""Projection: synapses as arrays, which the simulator puts into a network's description."""

import numpy as np
from pyNN import common
from pyNN.space import Space

from . import simulator
from .synapses import StaticSynapse, STDPMechanism


class Connection(common.Connection):
    """One synapse of a projection."""

    def __init__(self, projection, place):
        self.__dict__.update(_projection=projection, _place=place)

    def __getattr__(self, name):
        projection = self._projection
        if name == "presynaptic_index":
            return int(projection.sources[self._place])
        if name == "postsynaptic_index":
            return int(projection.targets[self._place])
        try:
            return float(projection.values(name)[self._place])
        except KeyError:
            raise AttributeError(f"a connection of {projection.label!r} has no {name!r}") from None

    def __setattr__(self, name, value):
        simulator.state.check_change(name)
        self._projection.attributes[name][self._place] = value
        simulator.state.changed()

    def as_tuple(self, *names):
        return tuple(getattr(self, name) for name in names)


class Projection(common.Projection):
    __doc__ = common.Projection.__doc__
    _simulator = simulator
    _static_synapse_class = StaticSynapse

    def __init__(
        self,
        presynaptic_population,
        postsynaptic_population,
        connector,
        synapse_type=None,
        source=None,
        receptor_type=None,
        space=None,
        label=None,
    ):
        super().__init__(
            presynaptic_population,
            postsynaptic_population,
            connector,
            synapse_type,
            source,
            receptor_type,
            Space() if space is None else space,
            label,
        )
        simulator.state.check_change("projections")
        self._parts = {"sources": [], "targets": []}
        connector.connect(self)
        joined = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in self._parts.items()}
        self.sources = joined.pop("sources").astype(int)
        self.targets = joined.pop("targets").astype(int)
        self.attributes = joined
        for name in ("weight", "delay"):
            self.attributes.setdefault(name, np.zeros(0))
        del self._parts
        simulator.state.projections.append(self)
        simulator.state.changed()

    @property
    def plastic(self):
        return isinstance(self.synapse_type, STDPMechanism)

    def _convergent_connect(self, presynaptic_indices, postsynaptic_index, location_selector=None, **parameters):
        if location_selector is not None:
            raise simulator.NotSupported("location_selector: Betz's neurons have one compartment")
        if len(presynaptic_indices) and isinstance(presynaptic_indices[0], simulator.ID):
            presynaptic_indices = self.pre.id_to_index(presynaptic_indices)
        if isinstance(postsynaptic_index, simulator.ID):
            postsynaptic_index = self.post.id_to_index(postsynaptic_index)
        count = len(presynaptic_indices)
        self._parts["sources"].append(np.asarray(presynaptic_indices, dtype=int))
        self._parts["targets"].append(np.full(count, postsynaptic_index, dtype=int))
        for name, value in parameters.items():
            values = np.broadcast_to(np.asarray(value, dtype=float), (count,))
            self._parts.setdefault(name, []).append(np.array(values))

    def values(self, name):
        """An attribute of all synapses, as it is now."""
        if name == "weight" and self.plastic:
            simulator.state.read_weights(self)
            return self.learned if self.learned is not None else self.attributes[name]
        return self.attributes[name]

    learned = None

    def _set_attributes(self, parameter_space):
        parameter_space.evaluate(simplify=False)
        for name, value in parameter_space.items():
            simulator.state.check_change(name)
            values = np.asarray(value, dtype=float)
            if values.ndim == 2:
                values = values[self.sources, self.targets]
            self.attributes[name] = np.array(np.broadcast_to(values, self.sources.shape))
        simulator.state.changed()

    def __len__(self):
        return len(self.sources)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return [Connection(self, i) for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return Connection(self, place)

    @property
    def connections(self):
        return self[:]
