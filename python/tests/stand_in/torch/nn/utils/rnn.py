import numpy as np
from torch import tensor


def pad_sequence(sequences, batch_first=False, padding_value=0):
    longest = max(len(s) for s in sequences)
    first = sequences[0]
    out = np.full((len(sequences), longest) + first.shape[1:], padding_value, dtype=first.dtype)
    for row, sequence in zip(out, sequences):
        row[: len(sequence)] = sequence
    return tensor(out if batch_first else np.swapaxes(out, 0, 1))
