"""Spikes with features from a folder of Kilosort or Phy."""

import ast
import math
import numbers
import operator
import pathlib

import numpy as np

from ._core import BetzError, Recording

# Largest number of features per spike.
_MOST = 64


def _params(path):
    """The values of `KEY = VALUE` lines of Python."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    found = {}
    for node in ast.parse(text, str(path)).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                pass  # a path made of others
    return found


def _array(folder, name, mapped=False):
    """The array in the file `name`; in memory, or as a view of the file."""
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"{folder}: expected {name}, got none")
    return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)


def _whole(folder, name):
    """The array in the file `name`, flat, as int64."""
    values = np.ravel(_array(folder, name))
    if values.dtype.kind not in "iu":
        if values.dtype.kind != "f":
            raise BetzError(f"{folder}: {name}: expected whole numbers, got {values.dtype}")
        odd = values[(values != np.floor(values)) | (np.abs(values) >= 2.0**63)]
        if len(odd):
            raise BetzError(f"{folder}: {name}: expected whole numbers, got {odd[0]}")
    return values.astype(np.int64)


def read_phy(folder, *, groups=None, components=1, sample_rate=None, **more):
    """A recording of the spikes in a folder of Kilosort or Phy whose channels are electrode groups, and the features of its
    spikes, (spikes, features), for `ClusterlessDecoder`.

    The folder has `spike_times.npy`, `pc_features.npy`, and `spike_templates.npy` with `pc_feature_ind.npy`. The features of
    a spike are the first `components` principal components on every channel of its group, 0 on channels that its template
    does not store, as in Phy. A spike belongs to the group on whose channels they are largest. Clusters are not used, so the
    order and number of spikes are those of the folder, by time.

    groups : a number per sorted channel, or None: `channel_shanks.npy`, or one group if there is no such file. Features
    without a channel in a group are NaN.
    sample_rate : samples per second, or None: that of `params.py`.
    more : keywords of `Recording.from_spikes`, such as behavior=, behavior_times= and behavior_names=.
    """
    folder = pathlib.Path(folder)
    if sample_rate is None:
        sample_rate = _params(folder / "params.py").get("sample_rate")
    if not isinstance(sample_rate, numbers.Real) or not 0 < sample_rate < math.inf:
        raise ValueError(f"sample_rate: expected samples per second, here or in {folder / 'params.py'}, got {sample_rate!r}")
    try:
        components = operator.index(components)
    except TypeError:
        raise TypeError(f"components: expected a whole number, got {components!r}") from None
    times = _whole(folder, "spike_times.npy")
    pcs = _array(folder, "pc_features.npy", mapped=True)
    templates = _whole(folder, "spike_templates.npy")
    stored = _array(folder, "pc_feature_ind.npy").astype(np.int64)
    spikes = len(times)
    if pcs.ndim != 3 or len(pcs) != spikes or len(templates) != spikes:
        raise BetzError(
            f"{folder}: expected pc_features.npy (spikes, components, channels) and spike_templates.npy of {spikes} spikes, as"
            f" spike_times.npy has, got {pcs.shape} and {templates.shape}"
        )
    if stored.ndim != 2 or stored.shape[1] != pcs.shape[2]:
        raise BetzError(
            f"{folder}: expected pc_feature_ind.npy (templates, {pcs.shape[2]}), the channels of pc_features.npy, got {stored.shape}"
        )
    if spikes and not (0 <= templates.min() and templates.max() < len(stored)):
        raise BetzError(f"{folder}: spike_templates.npy: expected templates from 0 to {len(stored) - 1}, got {templates.max()}")
    if not 1 <= components <= pcs.shape[1]:
        raise ValueError(f"components: expected 1 to {pcs.shape[1]}, as many as pc_features.npy has, got {components}")
    channels = len(_array(folder, "channel_map.npy").ravel())
    if groups is None:
        try:
            groups = np.ravel(_array(folder, "channel_shanks.npy"))
        except FileNotFoundError:
            groups = np.zeros(channels, int)
    groups = np.ravel(np.asarray(groups))
    if len(groups) != channels:
        raise ValueError(f"groups: expected {channels}, one per channel of channel_map.npy, got {len(groups)}")
    names, group_of = np.unique(groups, return_inverse=True)
    columns = max(np.bincount(group_of)) * components
    if columns > _MOST:
        raise ValueError(
            f"groups: expected at most {_MOST // components} channels per group with components={components}, got {columns // components};"
            " give a number per channel, such as one per tetrode or per stretch of a probe"
        )
    # Place of each channel within its group.
    place = np.array([np.count_nonzero(group_of[:c] == group_of[c]) for c in range(channels)])
    features = np.full((spikes, columns), np.nan, np.float32)
    chosen = np.zeros(spikes, np.int64)
    for template in np.unique(templates):
        rows = np.flatnonzero(templates == template)
        # Kilosort fills up with a number that is no channel.
        local = np.flatnonzero((0 <= stored[template]) & (stored[template] < channels))
        if not len(local):
            raise BetzError(f"{folder}: pc_feature_ind.npy: expected a channel from 0 to {channels - 1} for template {template}, got none")
        own = stored[template][local]
        values = np.asarray(pcs[rows][:, :components, :][:, :, local], np.float32)
        sizes = np.zeros((len(rows), len(names)))
        for at, channel in enumerate(own):
            sizes[:, group_of[channel]] += np.square(values[:, :, at], dtype=np.float64).sum(1)
        best = sizes.argmax(1)
        chosen[rows] = best
        for group in np.unique(best):
            here = best == group
            full = np.zeros((np.count_nonzero(here), np.count_nonzero(group_of == group), components), np.float32)
            for at, channel in enumerate(own):
                if group_of[channel] == group:
                    full[:, place[channel]] = values[here][:, :, at]
            features[rows[here], : full[0].size] = full.reshape(len(full), -1)
    order = np.argsort(times, kind="stable")
    more.setdefault("channel_names", [f"group{name}" for name in names])
    recording = Recording.from_spikes(times[order], chosen[order], 1.0 / float(sample_rate), **more)
    return recording, features[order]
