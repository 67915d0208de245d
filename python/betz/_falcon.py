"""A decoder for the FALCON benchmark: its interface over sessions, one per dataset."""

import pathlib

import numpy as np
from falcon_challenge.interface import BCIDecoder

from ._core import Model, Session


class FalconDecoder(BCIDecoder):
    """Betz as a decoder of the FALCON benchmark (package `falcon-challenge`).

    `models` is one model for all datasets, or one for each by its name (`task_config.hash_dataset`): a `Model`, a fitted
    `Decoder`, or the path of a model's file. Steps are those of the task, 20 ms. Filters run on from trial to trial, as
    the continual tasks (h1, m1, m2) are evaluated; `on_done` changes nothing.
    """

    def __init__(self, task_config, models, batch_size=1):
        super().__init__(task_config=task_config, batch_size=batch_size)
        self._models = {name: self._checked(m) for name, m in models.items()} if hasattr(models, "items") else self._checked(models)
        self._sessions = []

    @classmethod
    def trained(cls, task_config, files, batch_size=1, **parameters):
        """One decoder for each dataset of `files` (NWB, as FALCON has them), trained on the samples that are evaluated.

        `parameters` are those of `betz.Decoder`, with its kind "auto" unless they say otherwise. A dataset in several files
        is learned from all of them.
        """
        from falcon_challenge.dataloaders import load_nwb

        from ._decoder import Decoder

        step = task_config.bin_size_ms / 1000
        samples = {}
        for file in map(pathlib.Path, files):
            counts, behavior, _, mask = load_nwb(file, task_config.task)
            use = np.asarray(mask, bool) & np.isfinite(behavior).all(axis=1)
            # A run of samples that are used is a trial: filters start from rest where samples are left out.
            trials = np.cumsum(np.diff(use.astype(np.int8), prepend=0) == 1)
            name = task_config.hash_dataset(file.stem)
            parts = samples.setdefault(name, ([], [], []))
            after = parts[2][-1].max() + 1 if parts[2] else 0
            for part, values in zip(parts, (counts[use], behavior[use], trials[use] + after)):
                part.append(values)
        parameters = {"kind": "auto", "step_seconds": step} | parameters
        decoders = {}
        for name, parts in samples.items():
            counts, behavior, trials = map(np.concatenate, parts)
            decoders[name] = Decoder(**parameters).fit(counts, behavior, trials=trials)
        return cls(task_config, decoders, batch_size)

    def _checked(self, model):
        if isinstance(model, (str, pathlib.Path)):
            model = Model.load(model)
        model = getattr(model, "model_", model)
        if not isinstance(model, Model):
            raise TypeError(f"models: expected a Model, a fitted Decoder or a path, got {type(model).__name__}")
        step = self._task_config.bin_size_ms / 1000
        session = Session(model)
        if (session.channels, session.outputs) != (self._task_config.n_channels, self._task_config.out_dim) or not np.isclose(
            model.step_seconds, step
        ):
            raise ValueError(
                f"models: expected {self._task_config.n_channels} channels, {self._task_config.out_dim} outputs and steps of {step} s,"
                f" got {session.channels}, {session.outputs} and {model.step_seconds} s"
            )
        return model

    def _model_of(self, tag):
        if isinstance(self._models, Model):
            return self._models
        name = str(tag)
        if name not in self._models:
            name = self._task_config.hash_dataset(pathlib.Path(tag).stem)
        if name not in self._models:
            raise KeyError(f"dataset {name}: expected one of {', '.join(sorted(self._models))}")
        return self._models[name]

    def reset(self, dataset_tags=("",)):
        """Starts every session of the batch from rest; tags are paths or names of datasets."""
        self._sessions = [Session(self._model_of(tag)) for tag in dataset_tags]

    def predict(self, neural_observations):
        """(batch, channels) counts to (batch, outputs); the last batch may be short."""
        rows = np.asarray(neural_observations)
        if len(rows) > len(self._sessions):
            raise ValueError(f"predict: expected at most {len(self._sessions)} rows, one per dataset since reset, got {len(rows)}")
        out = np.empty((len(rows), self._task_config.out_dim), np.float32)
        for session, row, to in zip(self._sessions, rows, out):
            session.step(np.ascontiguousarray(row), to)
        return out

    def on_done(self, dones):
        """Trials end, the session goes on."""
