"""PyNN's functions that set up, run and end a simulation."""

from pyNN import common
from pyNN.common.control import DEFAULT_MAX_DELAY, DEFAULT_MIN_DELAY, DEFAULT_TIMESTEP
from pyNN.connectors import FixedProbabilityConnector
from pyNN.recording import get_io

from . import simulator
from .populations import Population
from .projections import Projection
from .synapses import StaticSynapse


def setup(timestep=DEFAULT_TIMESTEP, min_delay=DEFAULT_MIN_DELAY, **extra_params):
    """Begins a new simulation, without any neurons.

    `threads` (1), `device` ("cpu"), `rng_seed` (1: of Poisson sources and noisy currents) and `record_limit` (10,000,000
    spikes) are Betz's own; other arguments are ignored, save that `spike_precision="off_grid"` refuses spike times that
    would have to be rounded.
    """
    max_delay = extra_params.get("max_delay", DEFAULT_MAX_DELAY)
    common.setup(timestep, min_delay, **extra_params)
    state = simulator.state
    state.clear()
    state.dt = float(timestep)
    state.asked_min_delay = min_delay
    state.asked_max_delay = max_delay
    state.off_grid = extra_params.get("spike_precision") == "off_grid"
    state.threads = int(extra_params.get("threads", 1))
    state.device = extra_params.get("device", "cpu")
    state.record_limit = int(extra_params.get("record_limit", 10_000_000))
    state.seed(extra_params.get("rng_seed", 1))
    return rank()


def end(compatible_output=True):
    """Writes the files that `record` was given."""
    for population, variables, filename in simulator.state.write_on_end:
        population.write_data(get_io(filename), variables)
    simulator.state.write_on_end = []


run, run_until = common.build_run(simulator)
run_for = run
reset = common.build_reset(simulator)
initialize = common.initialize
get_current_time, get_time_step, get_min_delay, get_max_delay, num_processes, rank = common.build_state_queries(simulator)
create = common.build_create(Population)
connect = common.build_connect(Projection, FixedProbabilityConnector, StaticSynapse)
record = common.build_record(simulator)


def record_v(source, filename):
    """Records potentials to a file, which `end` writes."""
    return record(["v"], source, filename)


def record_gsyn(source, filename):
    """Records conductances to a file, which `end` writes."""
    return record(["gsyn_exc", "gsyn_inh"], source, filename)
