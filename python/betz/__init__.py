"""Betz: spikes in, movement out, within a bounded time.

A decoder in four lines, from arrays or from a recording:

>>> import numpy as np, betz
>>> X = np.random.default_rng(0).poisson(1.0, (1000, 20))      # (time, channels): spike counts in bins of 20 ms
>>> y = X[:, :2] - X[:, 2:4]                                   # (time, outputs)
>>> decoder = betz.Decoder(step_seconds=0.02, bank=[(0.001, 0)]).fit(X[:800], y[:800])
>>> bool(decoder.score(X[800:], y[800:]) > 0.99)
True

`Recording` holds what was recorded, `Filter` is a filter of any shape, `Decoder`, `ClassDecoder`,
`ClusterlessDecoder` and `SelfOrganizingMap` are scikit-learn's estimators, `Model` what
they have trained, `Session` a model at work tick by tick, `Live` a whole session with its source; `look` shows what a recording holds, `plot`
draws, `show` opens the page; `multiply` multiplies matrices larger than memory; `mine`, `network`, `simulate`, `spiking` and `sort` are the library's other parts.
"""

import os
from typing import TYPE_CHECKING

try:
    import numpy
except ImportError as error:
    raise ImportError("betz: expected NumPy, whose arrays it takes and gives, got none; install numpy") from error

from ._core import (
    BetzError,
    BetzWarning,
    ClusterlessModel,
    ClusterlessSession,
    CountPart,
    Dataset,
    DeviceError,
    Episode,
    Live,
    LiveStep,
    LiveSteps,
    Mined,
    Miner,
    Model,
    Network,
    NetworkPart,
    Recording,
    Session,
    SomMap,
    Sums,
    Unlike,
    __version__,
    count,
    forked,
    join,
    look,
    mine,
    multiply,
    network,
    presets,
    recalibrate,
    simulate,
    sort,
    spike_features,
)
from . import spiking
from ._filter import Filter
from ._phy import read_phy
from ._show import Page, show

# A fork has none of the library's threads; it starts its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
del forked, os, numpy

if TYPE_CHECKING:
    from . import plot
    from ._classes import ClassDecoder
    from ._clusterless import ClusterlessDecoder
    from ._decoder import Decoder
    from ._falcon import FalconDecoder
    from ._som import SelfOrganizingMap

__all__ = [
    "BetzError",
    "BetzWarning",
    "ClassDecoder",
    "ClusterlessDecoder",
    "ClusterlessModel",
    "ClusterlessSession",
    "CountPart",
    "Dataset",
    "Decoder",
    "DeviceError",
    "Episode",
    "FalconDecoder",
    "Filter",
    "Live",
    "LiveStep",
    "LiveSteps",
    "Mined",
    "Miner",
    "Model",
    "Network",
    "NetworkPart",
    "Page",
    "Recording",
    "SelfOrganizingMap",
    "Session",
    "SomMap",
    "Sums",
    "Unlike",
    "count",
    "join",
    "look",
    "mine",
    "multiply",
    "network",
    "plot",
    "presets",
    "read_phy",
    "recalibrate",
    "show",
    "simulate",
    "sort",
    "spike_features",
    "spiking",
    "__version__",
]


def __getattr__(name):
    # scikit-learn takes most of a second to import: only who asks for the estimator waits for it.
    if name == "Decoder":
        from ._decoder import Decoder

        return Decoder
    if name == "ClassDecoder":
        from ._classes import ClassDecoder

        return ClassDecoder
    if name == "ClusterlessDecoder":
        from ._clusterless import ClusterlessDecoder

        return ClusterlessDecoder
    if name == "SelfOrganizingMap":
        from ._som import SelfOrganizingMap

        return SelfOrganizingMap
    # Its base class is another package's.
    if name == "FalconDecoder":
        from ._falcon import FalconDecoder

        return FalconDecoder
    # It needs matplotlib to draw.
    if name == "plot":
        import importlib

        return importlib.import_module("betz.plot")
    raise AttributeError(f"module 'betz' has no attribute '{name}'")


def __dir__():
    return sorted(__all__)
