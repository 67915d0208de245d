from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from ._core import ClusterlessModel, ClusterlessSession, Progress, Recording

class ClusterlessDecoder(BaseEstimator):
    model_: ClusterlessModel
    training_: dict[str, Any]
    def __init__(
        self,
        *,
        step_seconds: float | None = None,
        cells: int | None = None,
        components: int | None = None,
        seed: int = 1,
        progress: Progress | None = None,
    ) -> None: ...
    def fit(
        self, recording: Recording, spike_features: ArrayLike, *, seconds: tuple[float, float] | None = None
    ) -> ClusterlessDecoder: ...
    def predict(
        self, recording: Recording, spike_features: ArrayLike, *, seconds: tuple[float, float] | None = None
    ) -> NDArray[np.float64]: ...
    def score(
        self, recording: Recording, spike_features: ArrayLike, *, seconds: tuple[float, float] | None = None
    ) -> float: ...
    def median_error(
        self, recording: Recording, spike_features: ArrayLike, *, seconds: tuple[float, float] | None = None
    ) -> float | None: ...
    def session(self) -> ClusterlessSession: ...
