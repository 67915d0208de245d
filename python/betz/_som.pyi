from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ._core import Progress, SomMap

class SelfOrganizingMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    map_: SomMap
    labels_: NDArray[np.int64]
    quantization_error_: float
    topographic_error_: float
    n_passes_: int
    training_: dict[str, Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    def __init__(
        self,
        map: str | Sequence[int] = (16, 16),
        *,
        hex: bool = False,
        torus: bool = False,
        positions: ArrayLike | None = None,
        metric: str = "euclidean",
        epochs: int | None = None,
        radius: float | tuple[float, float] | None = None,
        exact: bool = False,
        online: bool = False,
        rate: float | tuple[float, float] | None = None,
        neighbourhood: str | None = None,
        disc: str | None = None,
        fade: str | None = None,
        seed: int = 1,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> None: ...
    def fit(self, X: ArrayLike, y: Any = None) -> SelfOrganizingMap: ...
    def partial_fit(self, X: ArrayLike, y: Any = None) -> SelfOrganizingMap: ...
    def predict(self, X: ArrayLike) -> NDArray[np.int64]: ...
    def transform(self, X: ArrayLike) -> NDArray[np.float64]: ...
    def score(self, X: ArrayLike, y: Any = None) -> float: ...
    @property
    def weights_(self) -> NDArray[np.float32]: ...
    @property
    def cluster_centers_(self) -> NDArray[np.float32]: ...
    @property
    def u_matrix_(self) -> NDArray[np.float32]: ...
