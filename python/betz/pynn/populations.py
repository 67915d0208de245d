"""Population, PopulationView and Assembly."""

import numpy as np
from pyNN import common, errors
from pyNN.parameters import ParameterSpace, simplify

from . import simulator
from .recording import Recorder


class Assembly(common.Assembly):
    _simulator = simulator


class _Parameters:
    """Parameters have PyNN's names and units, so that they need no translation."""

    def _get_parameters(self, *names):
        values = {}
        for name in names:
            value = self._owner._parameters[name]
            values[name] = simplify(value if self._places is None else value[self._places])
        return ParameterSpace(values, shape=(self.size,))

    def _set_parameters(self, parameter_space):
        parameter_space.evaluate(simplify=False)
        self._owner._check(parameter_space)
        for name, value in parameter_space.items():
            simulator.state.check_change(name)
            places = slice(None) if self._places is None else self._places
            self._owner._parameters[name][places] = value
        simulator.state.changed()

    def _set_initial_value_array(self, variable, initial_values):
        simulator.state.check_change(f"the initial value of {variable}")
        values = initial_values.evaluate(simplify=False)
        owner = self._owner
        if variable not in owner._starts:
            owner._starts[variable] = np.zeros(owner.size)
        owner._starts[variable][slice(None) if self._places is None else self._places] = values
        simulator.state.changed()

    def _get_view(self, selector, label=None):
        return PopulationView(self, selector, label)


class PopulationView(_Parameters, common.PopulationView):
    _assembly_class = Assembly
    _simulator = simulator

    @property
    def _owner(self):
        return self.grandparent

    @property
    def _places(self):
        return np.asarray(self.index_in_grandparent(np.arange(self.size)))


class Population(_Parameters, common.Population):
    __doc__ = common.Population.__doc__
    _simulator = simulator
    _recorder_class = Recorder
    _assembly_class = Assembly
    _places = None

    @property
    def _owner(self):
        return self

    def _create_cells(self):
        state = simulator.state
        state.check_change("populations")
        first = state.id_counter
        self.all_cells = np.array(
            [simulator.ID(n) for n in range(first, first + self.size)], dtype=simulator.ID
        )
        self._mask_local = np.ones(self.size, bool)
        for cell in self.all_cells:
            cell.parent = self
        state.id_counter += self.size
        space = self.celltype.native_parameters
        space.shape = (self.size,)
        space.evaluate(simplify=False)
        self._check(space)
        self._parameters = {}
        for name, value in space.items():
            own = np.empty(self.size, dtype=object if name == "spike_times" else float)
            own[:] = value
            self._parameters[name] = own
        self._starts = {}
        state.populations.append(self)
        state.changed()

    def _check(self, space):
        """Refuses lists of spike times that do not increase."""
        if "spike_times" not in space.keys():
            return
        for sequence in np.atleast_1d(space["spike_times"]):
            times = np.asarray(getattr(sequence, "value", sequence), dtype=float)
            if (np.diff(times) < 0).any():
                raise errors.InvalidParameterValueError(f"spike_times: expected times that increase, got {times}")
