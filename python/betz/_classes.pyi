from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from ._filter import Filter
from ._core import Dataset, Model, Progress, Recording, Session, Sums

class ClassDecoder(ClassifierMixin, BaseEstimator):
    classes_: NDArray[Any]
    model_: Model
    sums_: Sums
    training_: dict[str, Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        kind: str = "softmax",
        *,
        step_seconds: float | None = None,
        bank: str | Sequence[tuple[float, int] | Filter | tuple[Sequence[float], int] | str] = "auto",
        ridge: str | float = "auto",
        delay_seconds: float = 0.0,
        folds: int = 5,
        latents: int | None = None,
        units: int | None = None,
        priors: Mapping[Any, float] | None = None,
        false_alarms: float = 1.0,
        unlabelled: Any = None,
        keep_artefacts: bool = False,
        device: str = "cpu",
        seed: int = 0,
        progress: Progress | None = None,
    ) -> None: ...
    def fit(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | str | Sequence[tuple[float, float, str]],
        trials: ArrayLike | None = None,
    ) -> ClassDecoder: ...
    def partial_fit(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | str | Sequence[tuple[float, float, str]],
        trials: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> ClassDecoder: ...
    def merge(self, other: ClassDecoder) -> ClassDecoder: ...
    def calibrate(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | str | Sequence[tuple[float, float, str]],
        trials: ArrayLike | None = None,
    ) -> ClassDecoder: ...
    def predict(self, X: ArrayLike | Recording | Dataset, trials: ArrayLike | None = None) -> NDArray[Any]: ...
    def predict_proba(
        self, X: ArrayLike | Recording | Dataset, trials: ArrayLike | None = None
    ) -> NDArray[np.float64]: ...
    def events(self, X: ArrayLike | Recording | Dataset, trials: ArrayLike | None = None) -> NDArray[Any]: ...
    def score(
        self,
        X: ArrayLike | Recording | Dataset,
        y: ArrayLike | str | Sequence[tuple[float, float, str]],
        trials: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float: ...
    def session(self, **config: Any) -> Session: ...
