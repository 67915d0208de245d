//! The experiments of chapter 4 of Galbraith 2010.

use super::super::study::{Experiment, Point, Study, point};

const MEMORY: &[Point] = &[
    point(
        "bytes of N neurons and S synapses",
        "50 N + 24 S + 4 pscFilterSize (N + S)",
    ),
    point("values of a PSC filter", "50 to 200"),
    point(
        "100,000 neurons with 1,000,000 synapses in 896 MB",
        "do not fit",
    ),
];

const COUNTS: &[Point] = &[
    point("steps of 0.25 ms in 10 s", "40,000"),
    point("⌊40,000 / 9⌋; remainder", "4,444; 4"),
    point("spikes of neurons 1 to 3 of a ring", "4,445 each"),
    point("spikes of neurons 4 to 12", "4,444 each"),
    point("spikes of neurons 13 to 21", "4,443 each"),
    point("steps without a spike after one", "8"),
    point("more spikes with PSCs of order 0 than with order 1", "4 %"),
];

const RING: &[Point] = &[
    point(
        "GPU is faster than every MPI configuration",
        "from 50,000 neurons on",
    ),
    point("MPI on 16 cores, any size", "at least 60 s"),
    point("at 500,000 neurons", "GPU and 16 cores are near each other"),
];

const FULL: &[Point] = &[
    point("1,000 neurons: synapses", "1,000,000"),
    point("GPU against MPI", "slower, but for 16 cores"),
];

const FIXED_NEURONS: &[Point] = &[
    point(
        "connectivity of 1,000 to 1,000,000 synapses",
        "0.1 to 100 %",
    ),
    point("GPU by the number of synapses", "slows down; behind MPI"),
];

const FIXED_SYNAPSES: &[Point] = &[
    point("connectivity at 1,000 neurons", "50 %"),
    point("connectivity at 500,000 neurons", "0.0002 %"),
    point("GPU by the number of neurons", "almost constant"),
    point("MPI by the number of neurons", "linear"),
    point("GPU against MPI at 1,000 neurons", "almost 10 × slower"),
    point("GPU is the fastest", "from 100,000 neurons on"),
];

const KERNELS: &[Point] = &[
    point("the synapse kernel dominates", "in both sweeps"),
    point("the synapse kernel by the number of synapses", "linear"),
];

const RASTER: &[Point] = &[
    point("1,000 neurons, 1 %: synapses", "10,000"),
    point("the last 1,000 steps", "0.25 ms"),
];

pub(crate) const STUDY: Study = Study {
    name: "spiking",
    title: "Spiking networks: chapter 4 of a thesis made again",
    sources: &[
        "B. V. Galbraith: Computational modeling of biological neural networks on GPUs: strategies and performance. Master's thesis, Marquette University, 2010, chapter 4.",
    ],
    machines: "AMD Phenom II X4 925 with an Nvidia GeForce GTX 260 (896 MB); MPI on Intel Nehalem X5550, 1 to 16 cores",
    remarks: &[
        "The thesis gives its times in pictures alone; its text gives the numbers below. Networks are overdriven: every spike fires its targets unless they are refractory.",
        "The thesis gives neither the membrane's time constant and resistance nor the threshold and the time constant of a PSC. Here they are 20 ms, 4,000, 1 and 2.5 ms; counts of spikes do not depend on them.",
        "The MPI version is not published. Threads of one machine stand for it.",
    ],
    experiments: &[
        Experiment {
            place: "Table 4.2, §4.4",
            title: "memory of a network",
            sizes: "N neurons, S synapses",
            points: MEMORY,
        },
        Experiment {
            place: "§4.4.2",
            title: "counts of spikes in a ring",
            sizes: "40,000 steps",
            points: COUNTS,
        },
        Experiment {
            place: "Figure 4.4",
            title: "rings",
            sizes: "100 to 500,000 neurons, 10 s",
            points: RING,
        },
        Experiment {
            place: "Figure 4.5",
            title: "fully connected networks",
            sizes: "10 to 1,000 neurons, 10 s",
            points: FULL,
        },
        Experiment {
            place: "Figure 4.6",
            title: "random networks of 1,000 neurons",
            sizes: "1,000 to 1,000,000 synapses, 10 s",
            points: FIXED_NEURONS,
        },
        Experiment {
            place: "Figure 4.7",
            title: "random networks of 500,000 synapses",
            sizes: "1,000 to 500,000 neurons, 10 s",
            points: FIXED_SYNAPSES,
        },
        Experiment {
            place: "Figures 4.8 and 4.9",
            title: "parts of a step",
            sizes: "as Figures 4.6 and 4.7",
            points: KERNELS,
        },
        Experiment {
            place: "Figure 4.10",
            title: "a raster",
            sizes: "1,000 neurons, 1 % connected",
            points: RASTER,
        },
    ],
};
