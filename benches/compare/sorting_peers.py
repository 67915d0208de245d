"""Sorters on the recordings of sorting_make.py, scored by SpikeInterface.

    pip install spikeinterface==0.105.3 mountainsort5==0.5.9 numba==0.68.1 scikit-learn==1.9.1 pandas torch
    python benches/compare/sorting_peers.py FOLDER NAME [NAME ...] [--kind probe32] [--seeds 10]

NAME: ms5 (MountainSort5, scheme 1), tridesclous2, spykingcircus2, or betz:PATH (the program `betz`, which is
trained on the recording and then run on it). Prints a line a recording and the means; accuracy is
hits / (hits + misses + extra) within 0.4 ms, the mean over true units. CPU seconds are those of this process and
its children.
"""

import argparse
import resource
import subprocess
import time

import numpy as np
import spikeinterface.comparison as comparison
import spikeinterface.core as core
import spikeinterface.preprocessing as preprocessing
from probeinterface import read_probeinterface

CHANNELS = {"probe32": 32, "tetrode": 4}


def cpu_seconds():
    own, children = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def read(folder, channels):
    recording = core.BinaryRecordingExtractor(
        f"{folder}/traces.dat",
        sampling_frequency=30000.0,
        num_channels=channels,
        dtype="int16",
        gain_to_uV=0.195,
        offset_to_uV=0.0,
    )
    probes = read_probeinterface(f"{folder}/probe.json")
    probes.probes[0].set_device_channel_indices(np.arange(channels))
    changed = recording.set_probegroup(probes)
    return changed if changed is not None else recording


def sort(name, folder, kind):
    if name.startswith("betz:"):
        program = name.removeprefix("betz:")
        raw, sorter, out = f"{folder}/traces.dat", f"{folder}/sorter.betz", f"{folder}/spikes.npz"
        line = [program, "sort", "train", raw, "--probe", f"{folder}/probe.json", "--rate", "30000"]
        line += ["--channels", str(CHANNELS[kind]), "--gain", "0.195", "--out", sorter, "--force"]
        subprocess.run(line, check=True, capture_output=True)
        subprocess.run([program, "sort", "run", sorter, raw, "--out", out, "--force"], check=True, capture_output=True)
        spikes = np.load(out)
        keep = np.isin(spikes["spike_channels"], np.arange(len(spikes["channel_names"])))
        labels = spikes["spike_channels"][keep].astype(int)
        return core.NumpySorting.from_samples_and_labels([spikes["spike_ticks"][keep]], [labels], 30000.0)
    recording = read(folder, CHANNELS[kind])
    if name == "ms5":
        import mountainsort5

        filtered = preprocessing.bandpass_filter(recording, 300.0, 6000.0, dtype="float32")
        white = preprocessing.whiten(filtered, dtype="float32")
        return mountainsort5.sorting_scheme1(white, sorting_parameters=mountainsort5.Scheme1SortingParameters())
    import spikeinterface.sorters as sorters

    return sorters.run_sorter(
        name,
        recording,
        folder=f"{folder}/out_{name}",
        remove_existing_folder=True,
        verbose=False,
        raise_error=True,
        job_kwargs=dict(n_jobs=1, progress_bar=False),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--kind", choices=CHANNELS, action="append")
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    for kind in args.kind or CHANNELS:
        for name in args.names:
            rows = []
            for seed in range(args.seeds):
                folder = f"{args.folder}/{kind}-{seed}"
                truth = np.load(f"{folder}/truth.npz")
                true = core.NumpySorting.from_samples_and_labels([truth["samples"]], [truth["units"]], 30000.0)
                wall, cpu = time.time(), cpu_seconds()
                found = sort(name, folder, kind)
                wall, cpu = time.time() - wall, cpu_seconds() - cpu
                compared = comparison.compare_sorter_to_ground_truth(true, found, exhaustive_gt=True)
                scores = compared.get_performance()
                accuracy, recall, precision = (
                    scores[column].astype(float).fillna(0.0).mean() for column in ("accuracy", "recall", "precision")
                )
                well = compared.count_well_detected_units(0.8)
                units = len(found.unit_ids)
                rows.append((accuracy, recall, precision, well, units, len(true.unit_ids), cpu))
                print(
                    f"{kind}-{seed} {name.split(':')[0]}: accuracy {accuracy:.3f} recall {recall:.3f} precision"
                    f" {precision:.3f}, {well} units >= 0.8, {units} found of {len(true.unit_ids)}, CPU {cpu:.1f} s",
                    flush=True,
                )
            mean = np.mean(rows, axis=0)
            print(
                f"{kind} {name.split(':')[0]} mean of {len(rows)}: accuracy {mean[0]:.3f} recall {mean[1]:.3f}"
                f" precision {mean[2]:.3f}, {mean[3]:.1f} units >= 0.8, {mean[4] / mean[5]:.2f} found a true unit,"
                f" CPU {mean[6]:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
