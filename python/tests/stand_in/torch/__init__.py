"""The few names of torch that falcon_challenge's evaluator uses, so that its test does without 3 GB of it."""

import numpy as np


class Tensor(np.ndarray):
    def numpy(self):
        return np.asarray(self)


def tensor(values):
    return np.asarray(values).view(Tensor)
