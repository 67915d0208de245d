from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ._filter import Filter
from ._core import Dataset, Model, Progress, Recording, Session, Sums

class Decoder(MultiOutputMixin, RegressorMixin, BaseEstimator):
    model_: Model
    training_: dict[str, Any]
    sums_: Sums
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        kind: str = "linear",
        *,
        step_seconds: float | None = None,
        bank: str | Sequence[tuple[float, int] | Filter | tuple[Sequence[float], int] | str] = "auto",
        ridge: str | float = "auto",
        noise: float | None = None,
        delay_seconds: float = 0.0,
        low_pass: tuple[float, int] | None = None,
        folds: int = 5,
        latents: int | None = None,
        units: int | None = None,
        experts: int | None = None,
        layers: Sequence[int] | None = None,
        members: int | None = None,
        mixed: int | None = None,
        epochs: int | None = None,
        weights: str | None = None,
        keep_artefacts: bool = False,
        retain_bytes: int | None = None,
        device: str = "cpu",
        seed: int = 0,
        progress: Progress | None = None,
        solver: str = "cholesky",
    ) -> None: ...
    def fit(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        outputs: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> Decoder: ...
    def partial_fit(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        outputs: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> Decoder: ...
    def merge(self, other: Decoder) -> Decoder: ...
    def predict(
        self, X: ArrayLike | Recording | Dataset, trials: ArrayLike | None = None
    ) -> NDArray[np.float64]: ...
    def score(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float: ...
    def session(self, **config: Any) -> Session: ...
    def to_onnx(self, path: str | PathLike[str]) -> None: ...
