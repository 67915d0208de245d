"""Ground-truth recordings for sorters, made offline with SpikeInterface.

    pip install spikeinterface==0.105.3
    python benches/compare/sorting_make.py FOLDER --seeds 10

For each seed FOLDER/probe32-SEED (32 channels in two columns, 10 units) and FOLDER/tetrode-SEED (4 channels, 6
units): traces.dat (int16, 0.195 µV a bit), probe.json, truth.npz (samples, units). 60 s at 30 kHz, noise 8 µV.
"""

import argparse
import os

import numpy as np
from probeinterface import generate_tetrode, write_probeinterface
from spikeinterface.core import generate_ground_truth_recording

MICROVOLTS = 0.195


def save(recording, sorting, folder):
    os.makedirs(folder, exist_ok=True)
    traces = np.asarray(recording.get_traces(), dtype=np.float32)
    bits = np.clip(np.round(traces / MICROVOLTS), -32768, 32767).astype("<i2")
    bits.tofile(f"{folder}/traces.dat")
    write_probeinterface(f"{folder}/probe.json", recording.get_probegroup())
    trains = [sorting.get_unit_spike_train(unit) for unit in sorting.unit_ids]
    samples = np.concatenate(trains)
    units = np.repeat(np.arange(len(trains)), [len(train) for train in trains])
    order = np.argsort(samples, kind="stable")
    np.savez(f"{folder}/truth.npz", samples=samples[order], units=units[order], rate_hz=30000.0)
    print(folder, bits.shape, len(samples), "spikes", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    common = dict(
        durations=[args.seconds],
        sampling_frequency=30000.0,
        noise_kwargs=dict(noise_levels=8.0, strategy="on_the_fly"),
        generate_sorting_kwargs=dict(firing_rates=(3.0, 25.0), refractory_period_ms=2.0),
    )
    for seed in range(args.first, args.first + args.seeds):
        recording, sorting = generate_ground_truth_recording(
            num_channels=32,
            num_units=10,
            generate_probe_kwargs=dict(
                num_columns=2,
                xpitch=20,
                ypitch=20,
                contact_shapes="circle",
                contact_shape_params=dict(radius=6),
            ),
            seed=2026 + 10 * seed,
            **common,
        )
        save(recording, sorting, f"{args.folder}/probe32-{seed}")
        probe = generate_tetrode()
        probe.set_device_channel_indices(np.arange(4))
        recording, sorting = generate_ground_truth_recording(
            num_channels=4,
            num_units=6,
            probe=probe,
            generate_unit_locations_kwargs=dict(
                margin_um=15.0, minimum_z=5.0, maximum_z=40.0, minimum_distance=10.0
            ),
            seed=2027 + 10 * seed,
            **common,
        )
        save(recording, sorting, f"{args.folder}/tetrode-{seed}")


main()
