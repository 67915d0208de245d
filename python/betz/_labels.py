"""Names, trials and units that arrays of pandas and xarray carry. Neither package is imported here."""

import numpy as np

# Index levels and coordinates that name trials.
_TRIAL_NAMES = ("trial", "trials")


def is_xarray(array):
    """True for a DataArray."""
    return hasattr(array, "dims") and hasattr(array, "coords") and hasattr(array, "to_numpy")


def is_frame(array):
    """True for a DataFrame of pandas."""
    return hasattr(array, "columns") and hasattr(array, "index")


def _is_series(array):
    return hasattr(array, "index") and hasattr(array, "to_numpy") and hasattr(array, "name") and not is_frame(array)


def plain(array):
    """A DataArray as NumPy has it; a DataFrame for X of one whose columns are its channels; all else as it is."""
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


def trials(X):
    """One label per row that X itself carries: an index level, or a coordinate along time, named "trial"."""
    if is_xarray(X):
        for name in _TRIAL_NAMES:
            if name in X.coords and X.coords[name].dims == X.dims[:1]:
                return np.asarray(X.coords[name])
    elif is_frame(X):
        for name in _TRIAL_NAMES:
            if name in (getattr(X.index, "names", None) or []):
                return np.asarray(X.index.get_level_values(name))
    return None


def outputs(y, names, units):
    """Names and units of y's columns: those given, or those that y carries; None where unknown."""
    if names is None:
        if is_xarray(y):
            names = coordinate(y, y.dims[1]) if y.ndim == 2 else y.name and [str(y.name)]
        elif is_frame(y):
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
    if not is_xarray(X):
        return estimates
    import xarray

    time = X.dims[0]
    coords = {name: coordinate for name, coordinate in X.coords.items() if coordinate.dims == (time,)}
    if estimates.ndim == 1:
        return xarray.DataArray(estimates, dims=(time,), coords=coords, name=names[0])
    return xarray.DataArray(estimates, dims=(time, "output"), coords=coords | {"output": names})
