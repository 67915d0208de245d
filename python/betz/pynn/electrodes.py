"""Current sources: `currents` gives the current of each step, which the simulator sets while it runs."""

import numpy as np
from pyNN.parameters import ArrayParameter, ParameterSpace
from pyNN.standardmodels import StandardCurrentSource, build_translations, electrodes

from .simulator import state


class _Source(StandardCurrentSource):
    def __init__(self, **parameters):
        own = object.__setattr__
        own(self, "_values", {})
        own(self, "cells", [])
        own(self, "history", [])
        own(self, "recording", False)
        super().__init__(**parameters)
        space = ParameterSpace(self.default_parameters, self.get_schema(), shape=(1,))
        space.update(**parameters)
        self.set_native_parameters(self.translate(space))
        state.current_sources.append(self)

    def set_native_parameters(self, parameters):
        parameters.evaluate(simplify=True)
        for name, value in parameters.items():
            self._values[name] = np.asarray(value.value) if isinstance(value, ArrayParameter) else value
        self._check()

    def get_native_parameters(self):
        return ParameterSpace(dict(self._values))

    def _check(self):
        pass

    def _within(self, steps):
        """True for the steps from `start` to before `stop`."""
        start, stop = (np.rint(self._values[name] / state.dt) for name in ("start", "stop"))
        return (steps >= start) & (steps < stop)

    def inject_into(self, cells):
        for cell in cells:
            if not cell.celltype.injectable:
                raise TypeError("Can't inject current into a spike source.")
        self.cells.extend(cells)

    def record(self):
        object.__setattr__(self, "recording", True)

    def forget(self):
        """Begins at time 0 again."""
        self.history.clear()

    def advance(self, first, count):
        """Currents in nA of `count` steps from `first` on."""
        amplitudes = self.currents(np.arange(first, first + count, dtype=float))
        if self.recording:
            self.history.append((first, amplitudes))
        return amplitudes

    def _get_data(self):
        values = np.zeros(state.step + 1)
        for first, amplitudes in self.history:
            values[first : first + len(amplitudes)] = amplitudes
        values[-1] = self.currents(np.array([float(state.step)]))[0]
        return np.arange(state.step + 1) * state.dt, values


def _same_names(source):
    return build_translations(*((name, name) for name in source.default_parameters))


class DCSource(_Source, electrodes.DCSource):
    __doc__ = electrodes.DCSource.__doc__
    translations = _same_names(electrodes.DCSource)

    def currents(self, steps):
        return np.where(self._within(steps), self._values["amplitude"], 0.0)


class StepCurrentSource(_Source, electrodes.StepCurrentSource):
    __doc__ = electrodes.StepCurrentSource.__doc__
    translations = _same_names(electrodes.StepCurrentSource)

    def _check(self):
        times = np.asarray(self._values["times"], dtype=float)
        amplitudes = np.asarray(self._values["amplitudes"], dtype=float)
        if (times < 0).any():
            raise ValueError(f"StepCurrentSource: expected times from 0 ms on, got {times.min()}")
        if (np.diff(times) <= 0).any():
            raise ValueError("StepCurrentSource: expected times that increase")
        if len(times) != len(amplitudes):
            # One of them is set before the other.
            return
        # Of the times within a step, the last one counts.
        steps, last = np.unique(np.rint(times / state.dt)[::-1], return_index=True)
        self._values["times"] = steps * state.dt
        self._values["amplitudes"] = amplitudes[::-1][last]

    def currents(self, steps):
        times, amplitudes = self._values["times"], self._values["amplitudes"]
        if len(times) != len(amplitudes):
            raise ValueError(f"StepCurrentSource: expected an amplitude per time, got {len(amplitudes)} and {len(times)}")
        place = np.searchsorted(np.rint(times / state.dt), steps, side="right")
        return np.concatenate([[0.0], amplitudes])[place]


class ACSource(_Source, electrodes.ACSource):
    __doc__ = electrodes.ACSource.__doc__
    translations = _same_names(electrodes.ACSource)

    def currents(self, steps):
        v = self._values
        seconds = (steps * state.dt - v["start"]) * 1e-3
        wave = np.sin(2 * np.pi * (v["frequency"] * seconds + v["phase"] / 360.0))
        return np.where(self._within(steps), v["offset"] + v["amplitude"] * wave, 0.0)


class NoisyCurrentSource(_Source, electrodes.NoisyCurrentSource):
    __doc__ = electrodes.NoisyCurrentSource.__doc__
    translations = _same_names(electrodes.NoisyCurrentSource)

    def currents(self, steps):
        v = self._values
        held = max(int(round(v["dt"] / state.dt)), 1)
        start = np.rint(v["start"] / state.dt)
        numbers = np.maximum((steps - start) // held, 0).astype(int)
        drawn = self.__dict__.setdefault("drawn", {})
        for number in np.unique(numbers):
            if number not in drawn:
                drawn[number] = state.rng.normal(v["mean"], v["stdev"])
        noise = np.array([drawn[number] for number in numbers])
        return np.where(self._within(steps), noise, 0.0)

    def forget(self):
        super().forget()
        self.__dict__.pop("drawn", None)
