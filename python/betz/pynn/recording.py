"""The recorder of a population, as PyNN asks for it."""

from pyNN import recording

from . import simulator


class Recorder(recording.Recorder):
    _simulator = simulator
    _since = 0

    def _record(self, variable, new_ids, sampling_interval=None):
        if sampling_interval is not None:
            steps = sampling_interval / simulator.state.dt
            if abs(steps - round(steps)) > 1e-6 or round(steps) < 1:
                raise ValueError(f"sampling_interval: expected whole steps of {simulator.state.dt} ms, got {sampling_interval}")
            self.sampling_interval = sampling_interval
        if variable.name == "v" and new_ids:
            simulator.state.check_traced(new_ids)

    def _reset(self):
        pass

    def _clear_simulator(self):
        self._since = simulator.state.step

    def store_to_cache(self, annotations=None):
        super().store_to_cache(annotations)
        # The next segment begins at time 0.
        self._since = 0

    def _get_spiketimes(self, ids, clear=False):
        state = simulator.state
        return {int(cell): times[times > self._since * state.dt + 1e-9] for cell, times in state.spike_times(ids).items()}

    def _get_all_signals(self, variable, ids, clear=False):
        state = simulator.state
        every = max(int(round(self.sampling_interval / state.dt)), 1)
        signals = state.potentials(ids) if variable.name == "v" else state.conductances(variable.name, ids)
        return signals[self._since :: every], None

    def _local_count(self, variable, filter_ids=None):
        ids = sorted(self.filter_recorded(variable, filter_ids))
        return {cell: len(times) for cell, times in self._get_spiketimes(ids).items()}
