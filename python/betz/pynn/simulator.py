"""The simulation behind `betz.pynn`: builds a Betz network from PyNN's objects at the first run, and steps through it."""

import numpy as np
from pyNN import common

from ..spiking import Network

name = "Betz"

# Steps between two looks at sources of spikes and currents.
_WINDOW = 10_000
# Parameters that may change while a simulation runs.
_LIVE = {"i_offset", "spike_times", "rate", "start", "duration"}
# States that a neuron may start with, besides zero.
_STATES = {"v", "w", "u"}
# Whole numbers that hold a weight: the largest weight of a network has at most this value.
_LARGEST_UNITS = 32767
# Least value of a projection's largest weight: smaller ones would be rounded by more than half a percent.
_LEAST_UNITS = 100
# Most kinds of leaky neurons with currents that become populations of their own: those are integrated exactly.
_MOST_KINDS = 16


class NotSupported(NotImplementedError):
    """Betz does not have this; the message names it."""


class ID(int, common.IDMixin):
    """A neuron."""

    def __init__(self, n):
        common.IDMixin.__init__(self)


class State(common.control.BaseState):
    """The one simulation there is."""

    def __init__(self):
        super().__init__()
        self.mpi_rank, self.num_processes = 0, 1
        self.dt = 0.1
        self.asked_min_delay = self.asked_max_delay = "auto"
        self.threads, self.device, self.record_limit = 1, "cpu", 10_000_000
        self.off_grid = False
        self.seed(1)
        self.clear()

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def clear(self):
        """Forgets all neurons."""
        self.recorders = set()
        self.write_on_end = []
        self.id_counter = 0
        self.segment_counter = -1
        self.populations, self.projections, self.current_sources = [], [], []
        self.reset()

    def reset(self):
        """Back to time 0; the network is built again at the next run."""
        self.running = False
        self.step = self.t_start = 0
        self.segment_counter += 1
        self.engine = None
        self._cached = {}
        self._trains = None
        for projection in self.projections:
            projection.learned = None
        for source in self.current_sources:
            source.forget()

    @property
    def t(self):
        return self.step * self.dt

    @property
    def default_delay(self):
        """The delay of synapses that name none."""
        return self.dt if self.asked_min_delay == "auto" else self.asked_min_delay

    def _delays(self):
        delays = [p.attributes["delay"] for p in self.projections if len(p)]
        return np.concatenate(delays) if delays else np.array([self.dt])

    @property
    def min_delay(self):
        return float(self._delays().min()) if self.asked_min_delay == "auto" else self.asked_min_delay

    @property
    def max_delay(self):
        return float(self._delays().max()) if self.asked_max_delay == "auto" else self.asked_max_delay

    def check_change(self, name):
        """Refuses changes that a built network cannot take in."""
        if self.engine is not None and name not in _LIVE:
            raise NotSupported(
                f"{name}: Betz builds the network at the first run; between runs only {', '.join(sorted(_LIVE))} and "
                "current sources change. Call reset() first"
            )

    def check_traced(self, ids):
        if self.engine is not None and not set(map(int, ids)) <= self._traced:
            raise NotSupported("v: Betz chooses the neurons whose potential it records at the first run; call reset() first")

    def changed(self):
        """Sources of spikes are looked at again."""
        self._trains = None

    # ---- Building ----

    def build(self):
        network = Network(step_ms=self.dt)
        self.parts = []
        self.part = np.zeros(self.id_counter, dtype=int)
        self.place = np.zeros(self.id_counter, dtype=int)
        self.starts = np.zeros(self.id_counter)
        for number, population in enumerate(self.populations):
            self._add_population(network, number, population)
        firsts = np.array([part.first for part in self.parts] or [0])
        self.neuron = firsts[self.part] + self.place if self.id_counter else self.place
        self.cell_of = np.argsort(self.neuron)
        self.learning = {}
        self._add_projections(network)
        self._traced = {
            int(cell)
            for recorder in self.recorders
            for variable, cells in recorder.recorded.items()
            if variable.name == "v"
            for cell in cells
        }
        self.engine = network.build(
            threads=self.threads,
            device=self.device,
            record=self.record_limit,
            traces=sorted(int(self.neuron[cell]) for cell in self._traced),
        )
        self.applied = [np.zeros(part.neurons) for part in self.parts]

    def _add_population(self, network, number, population):
        cells = population.all_cells.astype(int)
        kind = population.celltype
        if kind.source:
            self.part[cells], self.place[cells] = len(self.parts), np.arange(len(cells))
            self.parts.append(network.population(f"{number}", len(cells), "source"))
            return
        for variable, values in population._starts.items():
            if variable not in _STATES and np.any(values):
                raise NotSupported(f"{population.label}: Betz starts {variable} at 0, got {values}")
        names = [name for name in population._parameters if name != "i_offset"]
        states = [name for name in population._starts if name in _STATES]
        rows = np.stack([population._parameters[n] for n in names] + [population._starts[n] for n in states], axis=1)
        # Kinds of neurons: those of equal parameters and starts.
        rows, group = np.unique(rows.astype(float), axis=0, return_inverse=True)
        group = group.reshape(-1)
        self.starts[cells] = population._starts["v"]
        kinds = []
        for row in rows:
            start = dict(zip(states, map(float, row[len(names) :]), strict=True))
            neuron, synapse = kind.neurons(dict(zip(names, map(float, row), strict=False)), start)
            ((model, constants),) = neuron.items()
            kinds.append({"model": model, "synapse": synapse, "values": {"start_mv": start["v"], **constants}})
        exact = model == "lif" and "conductance" not in synapse
        if "alpha" in synapse or exact and len(kinds) <= _MOST_KINDS:
            together = [[index] for index in range(len(kinds))]
        else:
            # Kinds of equal synapses are one population of Betz, with a list of each parameter.
            by_synapse = {}
            for index, one in enumerate(kinds):
                by_synapse.setdefault(repr(one["synapse"]), []).append(index)
            together = list(by_synapse.values())
        for index, chosen in enumerate(together):
            own = np.isin(group, chosen).nonzero()[0]
            members = cells[own]
            first = kinds[chosen[0]]
            values = dict(first["values"])
            for parameter in values:
                of_kinds = np.array([one["values"][parameter] for one in kinds])
                if len(set(of_kinds[chosen].tolist())) > 1:
                    values[parameter] = of_kinds[group[own]]
            self.part[members], self.place[members] = len(self.parts), np.arange(len(members))
            made = network.population(f"{number}.{index}", len(members), first["model"], synapse=first["synapse"], **values)
            self.parts.append(made)

    def _add_projections(self, network):
        largest = {}
        for projection in self.projections:
            if not len(projection):
                continue
            sources = projection.pre.all_cells.astype(int)[projection.sources]
            targets = projection.post.all_cells.astype(int)[projection.targets]
            delays = np.rint(projection.attributes["delay"] / self.dt).astype(int)
            if delays.min() < 1 or delays.max() > 255:
                raise NotSupported(
                    f"{projection.label}: Betz's delays are 1 to 255 steps of {self.dt} ms, "
                    f"got {delays.min()} to {delays.max()} steps"
                )
            pairs = np.stack([self.part[sources], self.part[targets]], axis=1)
            pairs, group = np.unique(pairs, axis=0, return_inverse=True)
            order = np.argsort(group.reshape(-1), kind="stable")
            ends = np.searchsorted(group.reshape(-1)[order], np.arange(len(pairs) + 1))
            for index, (source, target) in enumerate(pairs):
                chosen = order[ends[index] : ends[index + 1]]
                kind = targets[chosen[0]]
                kind = self._celltype(kind)
                weights = projection.attributes["weight"][chosen] * kind.weight_scale
                listed = [
                    {"source": s, "target": t, "weight": w, "delay_steps": d}
                    for s, t, w, d in zip(
                        self.place[sources[chosen]].tolist(),
                        self.place[targets[chosen]].tolist(),
                        weights.tolist(),
                        delays[chosen].tolist(),
                        strict=True,
                    )
                ]
                plasticity = projection.synapse_type.plasticity(kind.weight_scale) if projection.plastic else None
                made = network.project(
                    self.parts[source],
                    self.parts[target],
                    {"list": {"synapses": listed}},
                    receptor=kind.receptors.get(projection.receptor_type),
                    plasticity=plasticity,
                )
                most = plasticity["high"] if plasticity else np.abs(weights).max()
                largest[projection.label, made] = most
                if plasticity:
                    key = np.lexsort((delays[chosen], self.place[targets[chosen]], self.place[sources[chosen]]))
                    self.learning.setdefault(projection, []).append((made, chosen[key], kind.weight_scale))
        unit = max(largest.values(), default=0.0) / _LARGEST_UNITS
        for (label, _), most in largest.items():
            if 0 < most < _LEAST_UNITS * unit:
                raise NotSupported(
                    f"{label}: its weights (up to {most:g} pA, nS or mV) are too small beside the network's largest one "
                    f"({unit * _LARGEST_UNITS:g}): Betz rounds weights to 1/{_LARGEST_UNITS} of it"
                )

    def _celltype(self, cell):
        for population in self.populations:
            if population.first_id <= cell <= population.last_id:
                return population.celltype
        raise KeyError(cell)

    # ---- Running ----

    def run(self, simtime):
        self.run_until(self.t + simtime)

    def run_until(self, tstop):
        stop = round(tstop / self.dt)
        if self.engine is None and self.populations:
            self.build()
        self.running = True
        while self.step < stop:
            count = min(stop - self.step, _WINDOW)
            if self.engine is not None:
                self._run_window(count)
            self.step += count

    def _run_window(self, count):
        steps, neurons = self._emissions(self.step, count)
        firing, begins = np.unique(steps, return_index=True)
        ends = np.append(begins, len(steps))[1:]
        emissions = {int(s): neurons[b:e].tolist() for s, b, e in zip(firing, begins, ends, strict=True)}
        currents = self._currents(self.step, count)
        at = self.step
        for step in sorted({*emissions, *currents}):
            self._advance(step - at)
            at = step
            for part, values in currents.get(step, {}).items():
                self.engine.set_currents(part, values.tolist())
            if step in emissions:
                self.engine.emit(emissions[step])
        self._advance(self.step + count - at)

    def _advance(self, steps):
        if steps > 0:
            self.engine.run(steps * self.dt * 1e-3)

    def _emissions(self, first, count):
        """Spikes of all sources in `count` steps, by step: steps, and neurons of the engine.

        A spike at the time t ends its step, so it is the spike of step t / dt - 1.
        """
        steps, neurons = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
        for population in self.populations:
            own = population._parameters
            cells = self.neuron[population.all_cells.astype(int)]
            if "rate" in own:
                chance = -np.expm1(-own["rate"] * self.dt * 1e-3)
                block = max(1_000_000 // len(cells), 1)
                for begin in range(first, first + count, block):
                    now = np.arange(begin, min(begin + block, first + count))
                    times = (now * self.dt)[:, None] + 1e-9
                    on = (times >= own["start"]) & (times < own["start"] + own["duration"])
                    fired = (self.rng.random(on.shape) < chance) & on
                    step, cell = fired.nonzero()
                    steps.append(now[step])
                    neurons.append(cells[cell])
        listed_steps, listed_neurons = self._listed()
        begin, end = np.searchsorted(listed_steps, [first, first + count])
        steps = np.concatenate([*steps, listed_steps[begin:end]])
        neurons = np.concatenate([*neurons, listed_neurons[begin:end]])
        order = np.argsort(steps, kind="stable")
        return steps[order], neurons[order]

    def _listed(self):
        """Spikes of all SpikeSourceArrays, by step."""
        if self._trains is not None:
            return self._trains
        steps, neurons = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
        for population in self.populations:
            if "spike_times" not in population._parameters:
                continue
            for cell, sequence in zip(population.all_cells, population._parameters["spike_times"], strict=True):
                times = np.asarray(getattr(sequence, "value", sequence), dtype=float)
                if self.off_grid and np.any(np.abs(times / self.dt - np.rint(times / self.dt)) > 1e-6):
                    raise NotSupported(
                        f"spike_precision='off_grid': Betz's spikes are at whole steps of {self.dt} ms, got {times}"
                    )
                own = np.ceil(times / self.dt - 1e-6).astype(int) - 1
                if len(own) and own.min() < 0:
                    raise ValueError(f"spike_times: expected times above 0 ms, got {times.min()} ms")
                later = own[own >= self.step]
                if len(np.unique(later)) < len(later):
                    raise ValueError(f"spike_times: expected one spike per step of {self.dt} ms, got {times}")
                steps.append(later)
                neurons.append(np.full(len(later), self.neuron[int(cell)]))
        steps, neurons = np.concatenate(steps), np.concatenate(neurons)
        order = np.argsort(steps, kind="stable")
        self._trains = steps[order], neurons[order]
        return self._trains

    def _currents(self, first, count):
        """Currents in pA to set: by step, then by part."""
        base = np.zeros(self.id_counter)
        for population in self.populations:
            if "i_offset" in population._parameters:
                base[population.all_cells.astype(int)] = population._parameters["i_offset"]
        waves = {}
        for source in self.current_sources:
            wave = source.advance(first, count)
            for cell in source.cells:
                waves[int(cell)] = waves.get(int(cell), 0.0) + wave
        cells = np.array(sorted(waves), dtype=int)
        table = np.stack([waves[cell] for cell in cells]) if waves else np.zeros((0, count))
        changes = 1 + np.diff(table, axis=1).any(axis=0).nonzero()[0]
        todo = {}
        for column in [0, *changes.tolist()]:
            total = base.copy()
            total[cells] += table[:, column]
            concerned = range(len(self.parts)) if column == 0 else np.unique(self.part[cells])
            for part in concerned:
                values = np.zeros(self.parts[part].neurons)
                members = (self.part == part).nonzero()[0]
                values[self.place[members]] = total[members] * 1e3
                if not np.array_equal(values, self.applied[part]):
                    todo.setdefault(first + column, {})[int(part)] = values
                    self.applied[part] = values
        return todo

    # ---- Results ----

    def _cache(self, name, make):
        at, value = self._cached.get(name, (None, None))
        if at != self.step:
            value = make()
            self._cached[name] = self.step, value
        return value

    def _spikes(self):
        """Steps and cells of all spikes, by cell."""
        if self.engine is None:
            return np.zeros(0, dtype=int), np.zeros(0, dtype=int)
        recording = self.engine.recording()
        steps = np.asarray(recording.spike_ticks).astype(int)
        cells = self.cell_of[np.asarray(recording.spike_channels).astype(int)]
        total = int(self.engine.counts().sum())
        if total > len(steps):
            raise MemoryError(f"spikes: {total} fired, and setup(record_limit={self.record_limit}) keeps fewer")
        order = np.lexsort((steps, cells))
        return steps[order], cells[order]

    def spike_steps(self, cell):
        steps, cells = self._cache("spikes", self._spikes)
        begin, end = np.searchsorted(cells, [int(cell), int(cell) + 1])
        return steps[begin:end]

    def spike_times(self, ids):
        """Times of spikes in ms by cell: the ends of their steps."""
        return {int(cell): (self.spike_steps(cell) + 1) * self.dt for cell in ids}

    def potentials(self, ids):
        """Potentials in mV from time 0 on, a column per cell."""
        traces = self._cache("potentials", self.engine.potentials) if self.engine is not None else {}
        columns = [np.concatenate([[self.starts[int(c)]], traces[int(self.neuron[int(c)])]]) for c in ids]
        return np.stack(columns, axis=1) if columns else np.zeros((self.step + 1, 0))

    def conductances(self, name, ids):
        """Conductances in uS from time 0 on, a column per cell: sums over the spikes that arrived, as the engine has them."""
        receptor, tau = {"gsyn_exc": ("excitatory", "tau_syn_E"), "gsyn_inh": ("inhibitory", "tau_syn_I")}[name]
        ids = [int(cell) for cell in ids]
        column = {cell: k for k, cell in enumerate(ids)}
        values = np.zeros((self.step + 1, len(ids)))
        for projection in self.projections:
            if projection.receptor_type != receptor or not len(projection):
                continue
            targets = projection.post.all_cells.astype(int)[projection.targets]
            mine = np.isin(targets, ids).nonzero()[0]
            if len(mine) and projection.plastic:
                raise NotSupported(f"{name}: Betz records no conductances of synapses that learn")
            sources = projection.pre.all_cells.astype(int)[projection.sources]
            delays = np.rint(projection.attributes["delay"] / self.dt).astype(int)
            for synapse in mine:
                arrivals = self.spike_steps(sources[synapse]) + 1 + delays[synapse]
                arrivals = arrivals[arrivals <= self.step]
                values[arrivals, column[targets[synapse]]] += projection.attributes["weight"][synapse]
        decay = np.ones(len(ids))
        for population in self.populations:
            for cell, own in zip(population.all_cells, population._parameters.get(tau, ()), strict=False):
                if int(cell) in column:
                    decay[column[int(cell)]] = np.exp(-self.dt / own)
        for step in range(1, len(values)):
            values[step] += values[step - 1] * decay
        return values

    def read_weights(self, projection):
        """Weights of a projection that learns, as they are now."""
        if self.engine is None:
            return

        def read():
            weights = projection.attributes["weight"].copy()
            for number, order, scale in self.learning.get(projection, ()):
                weights[order] = self.engine.synapses(number)[2] / scale
            return weights

        projection.learned = self._cache(("weights", id(projection)), read)


state = State()
