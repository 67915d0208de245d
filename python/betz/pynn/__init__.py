"""A PyNN backend: networks that are described with PyNN run on Betz.

    import betz.pynn as sim

    sim.setup(timestep=0.1)
    noise = sim.Population(100, sim.SpikeSourcePoisson(rate=20.0))
    cells = sim.Population(50, sim.IF_cond_exp(tau_m=15.0))
    sim.Projection(noise, cells, sim.FixedProbabilityConnector(0.5), sim.StaticSynapse(weight=0.01, delay=1.5))
    cells.record(["spikes", "v"])
    sim.run(500.0)
    block = cells.get_data()

Models, synapses and actions that Betz does not have raise `NotSupported`, which names them. docs/pynn.md lists both.
`setup` also takes `threads`, `device` ("cpu"), `rng_seed` and `record_limit` (most spikes that are kept).
"""

try:
    import pyNN as _pynn
except ImportError as _error:
    raise ImportError("betz.pynn needs PyNN 0.12: pip install 'PyNN>=0.12,<0.13'") from _error

from pyNN import errors, random, space
from pyNN.connectors import *  # noqa: F403
from pyNN.network import Network
from pyNN.random import GSLRNG, NumpyRNG, RandomDistribution
from pyNN.recording import *  # noqa: F403
from pyNN.space import Space
from pyNN.standardmodels import StandardCellType

from ._unsupported import *  # noqa: F403
from .cells import (
    EIF_cond_exp_isfa_ista,
    IF_cond_exp,
    IF_curr_alpha,
    IF_curr_delta,
    IF_curr_exp,
    Izhikevich,
    SpikeSourceArray,
    SpikeSourcePoisson,
)
from .control import (
    connect,
    create,
    end,
    get_current_time,
    get_max_delay,
    get_min_delay,
    get_time_step,
    initialize,
    num_processes,
    rank,
    record,
    record_gsyn,
    record_v,
    reset,
    run,
    run_for,
    run_until,
    setup,
)
from .electrodes import ACSource, DCSource, NoisyCurrentSource, StepCurrentSource
from .populations import Assembly, Population, PopulationView
from .projections import Projection
from .simulator import NotSupported
from .synapses import (
    AdditiveWeightDependence,
    MultiplicativeWeightDependence,
    SpikePairRule,
    StaticSynapse,
    STDPMechanism,
)


def list_standard_models():
    """Names of the cell types that Betz has."""
    return sorted(
        name
        for name, value in globals().items()
        if isinstance(value, type) and issubclass(value, StandardCellType) and value is not StandardCellType
    )
