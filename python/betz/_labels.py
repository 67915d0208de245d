"""Names, trials, times and units that arrays of pandas, polars and xarray carry. None of the packages is imported here."""

import sys

import numpy as np

from ._core import warn

# Index levels and coordinates that name trials, and those that hold whole trials.
_TRIAL_NAMES = ("trial", "trials")
_SESSION_NAMES = ("session", "sessions", "session_id", "day", "block", "run", "subject")

# Dimensions and index levels along time, and dimensions across it.
_TIME_NAMES = ("time", "times", "t", "bin", "bins", "step", "steps", "sample", "samples")
_CHANNEL_NAMES = ("channel", "channels", "unit", "units", "neuron", "neurons", "cell", "cells", "electrode", "electrodes", "output", "outputs")

# Seconds in one of a coordinate's units.
_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "µs": 1e-6}


def is_xarray(array):
    """True for a DataArray."""
    return hasattr(array, "dims") and hasattr(array, "coords") and hasattr(array, "to_numpy")


def is_frame(array):
    """True for a DataFrame of pandas."""
    return hasattr(array, "columns") and hasattr(array, "index")


def _is_series(array):
    return hasattr(array, "index") and hasattr(array, "to_numpy") and hasattr(array, "name") and not is_frame(array)


def is_polars(array):
    """True for a DataFrame of polars."""
    return hasattr(array, "columns") and hasattr(array, "get_columns") and not hasattr(array, "index")


def oriented(name, array):
    """A DataArray with time along its first dimension; all else as it is."""
    if not is_xarray(array) or array.ndim != 2:
        return array
    first, second = (str(dim).lower() for dim in array.dims)
    if first in _TRIAL_NAMES or second in _TRIAL_NAMES:
        raise ValueError(
            f"{name}: expected a row per time and a column per channel or output, got the dimensions {tuple(map(str, array.dims))};"
            " .stack(sample=(trial, time)) makes rows of trials"
        )
    turned = second in _TIME_NAMES and first not in _TIME_NAMES or first in _CHANNEL_NAMES and second not in _CHANNEL_NAMES
    return array.transpose() if turned else array


def plain(array):
    """A DataArray as NumPy has it, or for X, whose columns have names, as a DataFrame; columns of nullable types as floats,
    whose missing values are NaN; all else as it is.
    """
    if is_frame(array):
        nullable = [kind for kind in array.dtypes if not isinstance(kind, np.dtype)]
        if nullable and all(getattr(kind, "kind", "O") in "biuf" for kind in array.dtypes):
            return array.astype(np.float64)
        return array
    if _is_series(array) and not isinstance(array.dtype, np.dtype) and getattr(array.dtype, "kind", "O") in "biuf":
        return array.astype(np.float64)
    if not is_xarray(array):
        return array
    if array.ndim == 2:
        names = coordinate(array, array.dims[1])
        if names is not None:
            import pandas

            return pandas.DataFrame(array.to_numpy(), columns=names)
    return array.to_numpy()


def coordinate(array, name):
    """Labels of a dimension as text, or None where it has none."""
    if name not in array.coords:
        return None
    return [str(label) for label in np.asarray(array.coords[name])]


def _levels(array):
    """The index of rows that has levels: of a DataFrame, or of a DataArray's first dimension; None without one."""
    index = array.indexes.get(array.dims[0]) if is_xarray(array) else array.index
    return index if getattr(index, "nlevels", 1) > 1 else None


def trials(X):
    """One label per row that X itself carries: an index level, or a coordinate along time, named "trial". Levels before it,
    and coordinates named "session", "day" or "block", tell apart trials of the same label.
    """
    if not (is_xarray(X) or is_frame(X)):
        return None
    index, outer = _levels(X), []
    if index is not None and any(name in _TRIAL_NAMES for name in index.names):
        place = next(k for k, name in enumerate(index.names) if name in _TRIAL_NAMES)
        inner = index.get_level_values(place)
        levels = [index.get_level_values(k) for k in range(place) if str(index.names[k]).lower() not in _TIME_NAMES]
        outer = [level for level in levels if getattr(level.dtype, "kind", "O") not in "mM"]
        outer += [index.get_level_values(k) for k in range(place + 1, index.nlevels) if index.names[k] in _SESSION_NAMES]
    elif is_xarray(X):

        def along(names):
            return [np.asarray(X.coords[name]) for name in names if name in X.coords and X.coords[name].dims == X.dims[:1]]

        found = along(_TRIAL_NAMES)
        if not found:
            return None
        inner, outer = found[0], along(_SESSION_NAMES)
    elif X.index.name in _TRIAL_NAMES:
        inner = X.index
    else:
        return None
    inner = np.asarray(inner)
    if not outer:
        return inner
    numbers = np.column_stack([*map(codes, outer), codes(inner)])
    labels = np.unique(numbers, axis=0, return_inverse=True)[1].reshape(-1).astype(float)
    labels[numbers[:, -1] < 0] = np.nan
    return labels


def trials_of(X, y):
    """Trials that X carries, or y where X has none. Refuses a pipeline whose first steps dropped them."""
    found = trials(X)
    if found is None and y is not None:
        found = trials(y)
    if found is None and not hasattr(X, "columns"):
        _refuse_dropped_trials()
    return found


def _refuse_dropped_trials():
    """ValueError inside of a pipeline whose X has trials, which the steps before the decoder did not hand on."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "sklearn.pipeline" and trials(frame.f_locals.get("X")) is not None:
            raise ValueError(
                "X: expected the trials of its index, which a step of the pipeline before the decoder dropped; let the steps keep it:"
                ' pipeline.set_output(transform="pandas")'
            )
        frame = frame.f_back


def codes(labels):
    """A number from 0 per label, the same for the same label; -1 for NaN, NaT, NA and None."""
    labels = np.asarray(labels)
    if labels.dtype.kind != "O":
        missing = np.isnan(labels) if labels.dtype.kind in "fcmM" else np.zeros(len(labels), bool)
        numbers = np.full(len(labels), -1)
        numbers[~missing] = np.unique(labels[~missing], return_inverse=True)[1].reshape(-1)
        return numbers
    known = {}
    return np.array([-1 if _is_missing(label) else known.setdefault(label, len(known)) for label in labels], np.int64)


def _is_missing(label):
    return label is None or type(label).__name__ == "NAType" or bool(np.any(label != label))


def runs(labels):
    """Runs of rows that have one label, (n, 2) half-open, and the number of each run's label, as `codes` gives it. Rows without
    a label are in none.
    """
    numbers = codes(labels)
    cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    starts, stops = np.r_[0, cuts], np.r_[cuts, len(numbers)]
    inside = numbers[starts] >= 0
    return np.column_stack([starts, stops])[inside], numbers[starts][inside]


def warn_of_missing(labels, found):
    """Warns of rows without a label, which no run of `found` holds."""
    missing = len(labels) - int((found[:, 1] - found[:, 0]).sum())
    if missing:
        warn(
            f"trials: {missing} of {len(labels)} rows have no label (NaN or None): they lie outside trials, and are left"
            " out. Leave these rows out yourself, or give them a label, to avoid this warning"
        )
    if not len(found):
        raise ValueError(f"trials: expected a label for at least one row, got none for {len(labels)} rows")


def times(array):
    """The time of each row that a DataFrame or DataArray carries, and the seconds in one of its units, or None where the unit
    is not known. (None, None) without times.
    """
    if is_xarray(array):
        names = [array.dims[0], *(name for name in _TIME_NAMES if name != array.dims[0])]
        found = [array.coords[name] for name in names if name in array.coords and array.coords[name].dims == array.dims[:1]]
        # A dimension of levels has tuples for values.
        found = [coordinate for coordinate in found if coordinate.dtype.kind in "biufmM"]
        if not found:
            return None, None
        at, unit = np.asarray(found[0]), found[0].attrs.get("units", "s")
    else:
        index = array.index
        named = [k for k, name in enumerate(index.names) if str(name).lower() in _TIME_NAMES]
        levels = [index.get_level_values(k) for k in named or range(index.nlevels)]
        kinds = "biufmM" if named else "mM"
        levels = [level for level in levels if getattr(level.dtype, "kind", "O") in kinds]
        if not levels:
            return None, None
        at, unit = np.asarray(levels[0]), "s"
    if at.dtype.kind in "mM":
        return (at - at[:1]) / np.timedelta64(1, "s") if len(at) else at, 1.0
    return at.astype(np.float64), _SECONDS.get(str(unit))


def outputs(y, names, units):
    """Names and units of y's columns: those given, or those that y carries; None where unknown."""
    if names is None:
        if is_xarray(y):
            names = coordinate(y, y.dims[1]) if y.ndim == 2 else y.name and [str(y.name)]
        elif is_frame(y) or is_polars(y):
            names = [str(name) for name in y.columns]
        elif _is_series(y):
            names = None if y.name is None else [str(y.name)]
    columns = np.shape(y)[1] if getattr(y, "ndim", 1) == 2 else 1
    if units is None and (is_xarray(y) or is_frame(y) or _is_series(y)):
        units = y.attrs.get("units")
        if isinstance(units, dict):
            units = [str(units.get(name, "")) for name in names or []]
        # A part of an array may carry the units of the whole.
        if units is not None and not isinstance(units, str) and len(units) != columns:
            units = None
    if isinstance(units, str):
        units = [units] * columns
    return [names] if isinstance(names, str) else names, units


def order(given, known, strict):
    """The order of y's columns that is the model's, or None for the same. `given` and `known`: names and units of y's columns
    and of the model's outputs. `strict` refuses other names; other units are always refused.
    """
    (names, units), (expected, of_expected) = given, known
    places = list(range(len(expected)))
    invented = [f"output{place}" for place in places]
    if names is not None and list(names) != expected and expected != invented:
        if sorted(names) == sorted(expected) and len(set(names)) == len(names):
            places = [names.index(name) for name in expected]
        elif strict:
            raise ValueError(
                f"y: expected the outputs {expected}, as in the first part, got {list(names)}; rename the columns of y, or choose"
                " those"
            )
    if units is not None and len(units) == len(expected):
        for name, unit, place in zip(expected, of_expected, places):
            if unit and units[place] and units[place] != unit:
                raise ValueError(f"y: expected '{name}' in '{unit}', as in fit, got '{units[place]}'; convert it first")
    return None if places == list(range(len(expected))) else places


def refuse_other_than_numbers(name, array):
    """TypeError for what scikit-learn's checks would turn into numbers that mean something else."""
    masked = getattr(array, "mask", None)
    if isinstance(array, np.ma.MaskedArray) and np.any(masked):
        raise TypeError(f"{name}: expected numbers, got masked values; fill them, or leave their rows out")
    if name == "y" and hasattr(array, "toarray"):
        raise TypeError("y: expected numbers, got a sparse matrix; convert it by its .toarray()")
    kinds = set()
    if is_frame(array):
        kinds = {getattr(kind, "kind", "O") for kind in array.dtypes}
    elif hasattr(array, "dtype"):
        kinds = {getattr(array.dtype, "kind", "O")}
    if kinds & set("mM"):
        raise TypeError(
            f"{name}: expected numbers, got times (datetime64 or timedelta64); convert them to seconds:"
            ' (t - t[0]) / numpy.timedelta64(1, "s")'
        )
    if kinds & set("USV"):
        raise TypeError(f"{name}: expected numbers, got text or records; convert them by .astype(float)")


def like(X, estimates, names):
    """Estimates as a DataArray over X's time, if X is one."""
    X = oriented("X", X)
    if not is_xarray(X):
        return estimates
    import xarray

    time = X.dims[0]
    coords = {name: coordinate for name, coordinate in X.coords.items() if coordinate.dims == (time,)}
    if estimates.ndim == 1:
        return xarray.DataArray(estimates, dims=(time,), coords=coords, name=names[0])
    return xarray.DataArray(estimates, dims=(time, "output"), coords=coords | {"output": names})
