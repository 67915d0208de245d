"""Makes the recordings of benches/record/cluster.md.

    python recordings.py N FILE

N spikes of 100 channels at 20 Hz, and two outputs to train on.
"""

import sys

import numpy as np

spikes, channels, tick = int(float(sys.argv[1])), 100, 1e-3
rng = np.random.default_rng(1)
duration = spikes / (channels * 20.0)
ticks = np.sort(rng.integers(0, int(duration / tick), spikes)).astype("<i8")
times = np.arange(0, duration, 0.05) + 0.05
outputs = np.stack([np.sin(0.7 * times), np.cos(0.4 * times)], 1).astype("<f4")
np.savez(
    sys.argv[2],
    spike_ticks=ticks,
    spike_channels=rng.integers(0, channels, spikes).astype("<u4"),
    tick_seconds=tick,
    duration_ticks=np.int64(duration / tick),
    behavior=outputs,
    behavior_times=times,
)
