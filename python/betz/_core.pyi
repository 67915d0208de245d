from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

__version__: str

Progress = Callable[[str, int, int], object]
Path = str | PathLike[str]

class BetzError(ValueError):
    kind: str
    position: int | None
    channel: int | None
    segment: int | None

class BetzWarning(UserWarning): ...

def warn(message: str) -> None: ...

class DeviceError(RuntimeError):
    kind: str
    position: int | None
    channel: int | None
    segment: int | None

class Recording:
    @classmethod
    def from_npz(cls, path: Path) -> Recording: ...
    @classmethod
    def from_nwb(
        cls,
        path: Path,
        *,
        behavior: str | Sequence[str] | None = None,
        tick_seconds: float = 1e-5,
        units: Sequence[str] | None = None,
        seconds: tuple[float, float] | None = None,
        trials: str | Sequence[str] | None = None,
        within: str | Sequence[str] | None = None,
        mask: str | Sequence[str] | None = None,
    ) -> Recording: ...
    @staticmethod
    def from_counts(
        counts: ArrayLike,
        step_seconds: float,
        *,
        behavior: ArrayLike | None = None,
        behavior_times: Sequence[float] | NDArray[np.float64] | None = None,
        behavior_names: Sequence[str] | None = None,
        behavior_units: Sequence[str] | None = None,
        segments: Sequence[Sequence[int]] | None = None,
        channel_names: Sequence[str] | None = None,
        electrode_um: Sequence[Sequence[float]] | None = None,
        meta: str | None = None,
    ) -> Recording: ...
    @staticmethod
    def from_signal(
        signal: ArrayLike,
        sample_seconds: float,
        *,
        behavior: ArrayLike | None = None,
        behavior_times: Sequence[float] | NDArray[np.float64] | None = None,
        behavior_names: Sequence[str] | None = None,
        behavior_units: Sequence[str] | None = None,
        segments: Sequence[Sequence[int]] | None = None,
        channel_names: Sequence[str] | None = None,
        electrode_um: Sequence[Sequence[float]] | None = None,
        meta: str | None = None,
    ) -> Recording: ...
    @staticmethod
    def from_spikes(
        spike_ticks: ArrayLike,
        spike_channels: ArrayLike,
        tick_seconds: float,
        *,
        duration_ticks: int | None = None,
        channels: int | None = None,
        behavior: ArrayLike | None = None,
        behavior_times: Sequence[float] | NDArray[np.float64] | None = None,
        behavior_names: Sequence[str] | None = None,
        behavior_units: Sequence[str] | None = None,
        segments: Sequence[Sequence[int]] | None = None,
        channel_names: Sequence[str] | None = None,
        electrode_um: Sequence[Sequence[float]] | None = None,
        meta: str | None = None,
    ) -> Recording: ...
    @staticmethod
    def from_neo(
        neo: Any,
        *,
        behavior: str | Sequence[str] | None = None,
        trials: str | Sequence[str] | None = None,
        tick_seconds: float = 1e-4,
    ) -> Recording: ...
    @staticmethod
    def from_pynapple(
        units: Any, *, behavior: Any = None, trials: Any = None, mask: Any = None, tick_seconds: float = 1e-4
    ) -> Recording: ...
    @staticmethod
    def from_pandas(counts: Any, step_seconds: float, *, behavior: Any = None) -> Recording: ...
    @staticmethod
    def from_xarray(counts: Any, step_seconds: float | None = None, *, behavior: Any = None) -> Recording: ...
    @staticmethod
    def from_parts(parts: dict[str, Any]) -> Recording: ...
    def mask(self, intervals: Any) -> Recording: ...
    def restrict(self, intervals: Any) -> Recording: ...
    def with_trials(self, segments: Sequence[Sequence[int]] | NDArray[np.int64]) -> Recording: ...
    def __len__(self) -> int: ...
    def __getitem__(self, trials: Any) -> Recording: ...
    @property
    def shape(self) -> tuple[int]: ...
    def to_nwb(
        self,
        path: Path,
        *,
        start: str | datetime | None = None,
        description: str | None = None,
        subject: str | None = None,
        species: str | None = None,
        sex: str | None = None,
        age: str | None = None,
    ) -> None: ...
    def save(self, path: Path) -> None: ...
    def default_step_seconds(self, kind: str = "linear") -> float: ...
    def align(self, step_seconds: float | None = None, *, max_gap_seconds: float | None = None) -> Dataset: ...
    @property
    def tick_seconds(self) -> float: ...
    @property
    def ticks(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def channels(self) -> int: ...
    @property
    def form(self) -> str: ...
    @property
    def channel_names(self) -> list[str]: ...
    @property
    def channel_names_are_invented(self) -> bool: ...
    @property
    def spike_ticks(self) -> NDArray[np.int64]: ...
    @property
    def spike_channels(self) -> NDArray[np.uint32]: ...
    @property
    def spike_weights(self) -> NDArray[np.float32] | None: ...
    @property
    def behavior(self) -> NDArray[np.float32] | None: ...
    @property
    def behavior_times(self) -> NDArray[np.float64] | None: ...
    @property
    def behavior_names(self) -> list[str]: ...
    @property
    def behavior_units(self) -> list[str]: ...
    @property
    def segments(self) -> NDArray[np.int64]: ...
    @property
    def electrode_um(self) -> NDArray[np.float32] | None: ...
    @property
    def meta(self) -> str | None: ...

class Dataset:
    @staticmethod
    def of_rows(
        x: ArrayLike,
        y: ArrayLike | None,
        step_seconds: float,
        segments: Sequence[Sequence[int]] | None = None,
        channel_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        output_units: Sequence[str] | None = None,
        signal: bool = False,
    ) -> Dataset: ...
    @property
    def step_seconds(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def channel_names(self) -> list[str]: ...
    @property
    def output_names(self) -> list[str]: ...
    @property
    def behavior(self) -> NDArray[np.float32]: ...
    @property
    def segments(self) -> list[tuple[int, int]]: ...
    @property
    def left_out(self) -> dict[str, int]: ...
    @property
    def output_units(self) -> list[str]: ...
    @property
    def is_signal(self) -> bool: ...
    def counts(self) -> NDArray[np.float32]: ...
    def to_pandas(self) -> tuple[Any, Any]: ...
    def to_xarray(self) -> Any: ...
    def select(self, segments: Sequence[int]) -> Dataset: ...

class Model:
    @classmethod
    def load(cls, path: Path) -> Model: ...
    @classmethod
    def from_bytes(cls, bytes: bytes) -> Model: ...
    def to_onnx(self, path: Path) -> None: ...
    def save(self, path: Path) -> None: ...
    def to_bytes(self) -> bytes: ...
    def decode(
        self, data: Dataset | Recording, *, device: str = "cpu", progress: Progress | None = None
    ) -> NDArray[np.float32]: ...
    def score(self, data: Dataset | Recording) -> tuple[list[dict[str, Any]], float]: ...
    @property
    def kind(self) -> str: ...
    @property
    def step_seconds(self) -> float: ...
    @property
    def delay_steps(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def channel_names(self) -> list[str]: ...
    @property
    def channel_mask(self) -> NDArray[np.bool_]: ...
    @property
    def output_names(self) -> list[str]: ...
    @property
    def output_units(self) -> list[str]: ...
    @property
    def bank(self) -> list[tuple[float, int]]: ...
    @property
    def weights(self) -> NDArray[np.float64]: ...
    @property
    def intercept(self) -> NDArray[np.float64]: ...
    @property
    def ridge(self) -> float: ...
    @property
    def training_steps(self) -> int: ...
    @property
    def scores(self) -> list[dict[str, Any]]: ...
    @property
    def takes_signal(self) -> bool: ...

class Sums:
    @staticmethod
    def over(data: Dataset, options: Mapping[str, Any], progress: Progress | None = None) -> Sums: ...
    @classmethod
    def from_bytes(cls, bytes: bytes, signal: bool) -> Sums: ...
    def save(self, path: Path) -> None: ...
    def merged(self, other: Sums) -> Sums: ...
    def shares(self, other: Sums) -> bool: ...
    def solve(self, *, ridge: float | None = None, noise: float = 0.1) -> Model: ...
    @property
    def steps(self) -> int: ...
    @property
    def parts(self) -> int: ...

class Session:
    def __init__(
        self,
        model: Model,
        *,
        clamp: Sequence[tuple[float, float]] | None = None,
        channel_mask: Sequence[bool] | None = None,
        slew: Sequence[float] | None = None,
        refuse_unknown: bool = True,
        statistics: bool = True,
    ) -> None: ...
    def step_spikes(
        self, channels: NDArray[np.uint32] | Sequence[int], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]: ...
    def step(self, counts: ArrayLike, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]: ...
    def step_stale(self, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]: ...
    def skip(self, ticks: int) -> None: ...
    def reset(self) -> None: ...
    def stats(self) -> dict[str, float]: ...
    def classes(self) -> NDArray[np.float32]: ...
    def events(self) -> list[tuple[int, int, bool, float]]: ...
    @property
    def status(self) -> str: ...
    @property
    def tick(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def model(self) -> Model: ...

class Episode:
    @property
    def channels(self) -> list[str]: ...
    @property
    def numbers(self) -> list[int]: ...
    @property
    def delays(self) -> list[tuple[float, float]]: ...
    @property
    def count(self) -> int: ...
    def __len__(self) -> int: ...

class Mined:
    @property
    def episodes(self) -> list[Episode]: ...
    @property
    def maximal(self) -> list[Episode]: ...
    @property
    def device(self) -> str: ...
    def __len__(self) -> int: ...

class Network:
    @property
    def window_start(self) -> NDArray[np.uint64]: ...
    @property
    def indptr(self) -> NDArray[np.uint64]: ...
    @property
    def i(self) -> NDArray[np.uint32]: ...
    @property
    def j(self) -> NDArray[np.uint32]: ...
    @property
    def r(self) -> NDArray[np.float32]: ...
    @property
    def nodes(self) -> int: ...
    @property
    def undefined(self) -> tuple[int, int]: ...
    def degrees(self, k: int) -> NDArray[np.uint32]: ...
    def communities(self, k: int) -> NDArray[np.uint32]: ...
    def save(self, path: Path) -> None: ...
    def __len__(self) -> int: ...

class NetworkPart:
    @classmethod
    def from_bytes(cls, bytes: bytes) -> NetworkPart: ...
    def save(self, path: Path) -> None: ...
    @property
    def shard(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...

class CountPart:
    @classmethod
    def from_bytes(cls, bytes: bytes) -> CountPart: ...
    def save(self, path: Path) -> None: ...
    @property
    def shard(self) -> tuple[int, int]: ...
    @property
    def events(self) -> int: ...
    def __len__(self) -> int: ...

def train(
    data: Dataset,
    options: Mapping[str, Any],
    progress: Progress | None = None,
    weights: NDArray[np.float64] | None = None,
) -> tuple[Model, dict[str, Any]]: ...
def presets() -> dict[str, str]: ...
def labels(data: Dataset, source: str | Sequence[tuple[float, float, str]]) -> tuple[list[str], NDArray[np.int32]]: ...
def train_classes(
    data: Dataset,
    options: dict[str, Any],
    names: Sequence[str],
    classes: ArrayLike,
    choices: dict[str, Any],
    progress: Progress | None = None,
) -> tuple[Model, dict[str, Any]]: ...
def class_events(
    model: Model, data: Dataset
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.bool_], NDArray[np.float32]]: ...
def mine(
    recording: Recording,
    *,
    delays: Sequence[tuple[float, float]],
    threshold: int,
    max_size: int | None = None,
    progress: Progress | None = None,
) -> Mined: ...
@overload
def network(
    signal: ArrayLike,
    *,
    window: int,
    step: int = 1,
    threshold: float | None = None,
    density: float | None = None,
    top: int | None = None,
    top_per_node: int | None = None,
    measure: str = "pearson",
    lags: int = 0,
    sign: str = "both",
    strict: bool = False,
    device: str = "cpu",
    shard: None = None,
    progress: Progress | None = None,
) -> Network: ...
@overload
def network(
    signal: ArrayLike,
    *,
    window: int,
    step: int = 1,
    threshold: float | None = None,
    density: float | None = None,
    top: int | None = None,
    top_per_node: int | None = None,
    measure: str = "pearson",
    lags: int = 0,
    sign: str = "both",
    strict: bool = False,
    device: str = "cpu",
    shard: tuple[int, int],
    progress: Progress | None = None,
) -> NetworkPart: ...
def count(
    path: Path,
    episodes: Sequence[Episode | str],
    *,
    shard: tuple[int, int] = (1, 1),
    memory: int = 1 << 30,
    progress: Progress | None = None,
) -> CountPart: ...
@overload
def join(parts: Sequence[NetworkPart]) -> Network: ...
@overload
def join(parts: Sequence[CountPart]) -> list[Episode]: ...

class simulate:
    @staticmethod
    def population(
        *,
        neurons: int = 150,
        train_seconds: float = 100.0,
        test_seconds: float = 10.0,
        band_hz: float = 5.0,
        step_seconds: float = 0.00025,
        seed: int = 0,
    ) -> tuple[Recording, Recording]: ...
    @staticmethod
    def chains(*, seconds: float = 10.0, neurons: int = 26, seed: int = 0) -> tuple[Recording, list[list[int]]]: ...
    @staticmethod
    def spiking(
        model: str,
        seconds: float,
        *,
        scale: float = 1.0,
        seed: int = 0,
        threads: int = 1,
        record: int = 0,
        device: str = "cpu",
        progress: Progress | None = None,
    ) -> dict[str, Any]: ...

class look:
    @staticmethod
    def psth(
        recording: Recording,
        events: str | ArrayLike | None = None,
        *,
        channels: Any = None,
        start: float = -0.5,
        stop: float = 1.0,
        bin: float = 0.01,
    ) -> dict[str, Any]: ...
    @staticmethod
    def raster(
        recording: Recording,
        channel: int | str,
        events: str | ArrayLike | None = None,
        *,
        start: float = -0.5,
        stop: float = 1.0,
    ) -> dict[str, Any]: ...
    @staticmethod
    def tuning(
        data: Recording | Dataset,
        variable: str | Sequence[str],
        *,
        channels: Any = None,
        bins: int = 8,
        range: tuple[float, float] | None = None,
        lag_seconds: float = 0.0,
        min_speed: float = 0.0,
        min_occupancy_seconds: float = 0.0,
        derivative: bool = False,
        step_seconds: float | None = None,
    ) -> dict[str, Any]: ...
    @staticmethod
    def isi(
        recording: Recording, *, channels: Any = None, bin: float = 0.001, longest: float = 0.1
    ) -> dict[str, Any]: ...
    @staticmethod
    def fano(recording: Recording, *, channels: Any = None, window: float = 0.1) -> NDArray[np.float64]: ...
    @staticmethod
    def quality(
        recording: Recording,
        *,
        channels: Any = None,
        refractory: float = 0.0015,
        parts: int = 100,
        fano_window: float = 0.1,
    ) -> list[dict[str, Any]]: ...

class sort:
    class Sorter:
        @classmethod
        def load(cls, path: Path) -> sort.Sorter: ...
        def save(self, path: Path) -> None: ...
        def sort(self, samples: NDArray[np.int16], *, progress: Progress | None = None) -> Recording: ...
        @property
        def units(self) -> list[dict[str, Any]]: ...
    @staticmethod
    def train(
        samples: NDArray[np.int16],
        rate_hz: float,
        microvolts: float,
        places: Sequence[Sequence[float] | None],
        *,
        threshold: float = 4.5,
        progress: Progress | None = None,
    ) -> sort.Sorter: ...
    @staticmethod
    def synthetic(*, seconds: float = 60.0, seed: int = 0) -> tuple[NDArray[np.int16], list[list[float]]]: ...
