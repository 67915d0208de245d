//! The experiments of the mining papers.

use super::super::study::{Experiment, Point, Study, point};

const WORKED: &[Point] = &[point(
    "occurrences of A →(5,10] B →(10,15] C among nine events",
    "1",
)];

const DATA_SETS: &[Point] = &[
    point("data set 1, 4,000 s: events", "12,840,684"),
    point("data set 2, 2,000 s: events", "6,422,449"),
    point("data set 3, 1,000 s: events", "3,277,130"),
    point("data set 4, 500 s: events", "1,636,463"),
    point("data set 5, 200 s: events", "655,133"),
    point("data set 6, 100 s: events", "328,067"),
    point("data set 7, 50 s: events", "163,849"),
    point("data set 8, 20 s: events", "65,428"),
    point("basal rate of a neuron", "20 spikes/s"),
    point("Sym26, 60 s: events", "50,000"),
    point("Sym26: embedded chains", "2"),
    point("cultures 2-1-33, 2-1-34 and 2-1-35", "three recordings"),
];

const THIRTY: &[Point] = &[
    point("MapConcat is slower than the CPU", "by up to 4 ×"),
    point(
        "MapConcat is slower than the best GPU method",
        "by up to 11 ×",
    ),
];

const ONE: &[Point] = &[point(
    "best GPU method over the CPU, largest data set",
    "6 ×",
)];

const LENGTH: &[Point] = &[
    point("CudppCompact is the slowest compaction", "at every length"),
    point("CountScanWrite is the fastest", "for short episodes"),
    point("AtomicCompact is the fastest", "for long episodes"),
    point("AtomicCompact depends on the length", "hardly"),
];

const FREQUENCY: &[Point] = &[
    point("time against frequency", "linear trend"),
    point("a bump of the time", "slightly above a frequency of 80,000"),
];

const PROFILE: &[Point] = &[
    point("MapConcat: instructions", "93,974,100"),
    point("MapConcat: branches", "27,883,000"),
    point("MapConcat: divergent branches", "1,301,840"),
    point("CountScanWrite: instructions", "8,939,786"),
    point("CountScanWrite: branches", "2,154,806"),
    point("CountScanWrite: divergent branches", "518,521"),
];

const TWO_PASS: &[Point] = &[
    point(
        "episodes of size four that the first pass eliminates",
        "43,634 of 43,656 (99.9 %)",
    ),
    point("two passes over the hybrid algorithm, size four", "3.6 ×"),
    point("two passes over the hybrid algorithm, all sizes", "2.53 ×"),
];

const SUPPORTS: &[Point] = &[
    point("least speedup over data sets and thresholds", "1.2 ×"),
    point("largest speedup over data sets and thresholds", "2.8 ×"),
];

const RESOURCES: &[Point] = &[
    point("hybrid algorithm: registers, local memory", "17; 80 bytes"),
    point("PreElim: registers, local memory", "13; none"),
    point(
        "five symbols: shared memory, registers per thread",
        "220 bytes; 97 bytes",
    ),
    point("threads per multiprocessor that these leave", "32"),
    point(
        "loads and stores of local memory, divergent branches by size",
        "a figure",
    ),
];

const HYBRID: &[Point] = &[
    point(
        "threads that a GTX 280 runs at once (30 multiprocessors, warps of 32)",
        "960",
    ),
    point(
        "a thread per episode is outdone by several where episodes are few",
        "below a crossover",
    ),
    point("several GPUs", "faster than one"),
];

pub(crate) const STUDY: Study = Study {
    name: "mining",
    title: "Mining episodes of spikes: three papers made again",
    sources: &[
        "W. Feng, Y. Cao, D. Patnaik, N. Ramakrishnan: Temporal Data Mining for Neuroscience (chapter of GPU Computing Gems, 2011).",
        "D. Patnaik, S. Ponce, Y. Cao, N. Ramakrishnan: Accelerator-Oriented Algorithm Transformation for Temporal Data Mining, 2009.",
        "Y. Cao et al.: Parallel Mining of Neuronal Spike Streams on Graphics Processing Units (Int. J. of Parallel Programming).",
    ],
    machines: "Intel Core 2 Quad Q8200 at 2.33 GHz (one core of it used), Nvidia GTX 280 (30 multiprocessors, 1 GB)",
    remarks: &[
        "The papers give their measured points in pictures alone; their text and tables give the numbers below. Data sets are simulated after the papers' description, and every count of every strategy is checked against the others.",
        "The papers' generator of spikes is not published. Here a spike of a chain's neuron makes the next one fire with probability 0.95, after 4 to 6 ms, and neurons are refractory for 1 ms.",
        "The recordings of cultures (Wagenaar et al. 2006) are not part of Betz. A simulated culture of 58 bursting channels stands for them.",
    ],
    experiments: &[
        Experiment {
            place: "Figure 3 (Cao et al.)",
            title: "the serial algorithm on nine events",
            sizes: "nine events of three types",
            points: WORKED,
        },
        Experiment {
            place: "Table II (Patnaik et al.), §1.4.1 (Feng et al.)",
            title: "data sets",
            sizes: "64 neurons with four chains of nine for 20 to 4,000 s; 26 neurons for 60 s",
            points: DATA_SETS,
        },
        Experiment {
            place: "Figure 9 (Patnaik et al.)",
            title: "30 episodes of nine symbols in data sets 1 to 8",
            sizes: "65,428 to 12,840,684 events",
            points: THIRTY,
        },
        Experiment {
            place: "Figure 10 (Patnaik et al.), 1.6 (Feng et al.)",
            title: "one episode of nine symbols in data sets 1 to 8",
            sizes: "65,428 to 12,840,684 events",
            points: ONE,
        },
        Experiment {
            place: "Figure 11 (Patnaik et al.), 1.7 (Feng et al.)",
            title: "time of three compactions against the length of an episode",
            sizes: "data set 1, one episode of up to nine symbols",
            points: LENGTH,
        },
        Experiment {
            place: "Figure 12 (Patnaik et al.), 1.8 (Feng et al.)",
            title: "time of three compactions against the frequency of an episode",
            sizes: "data set 1, single episodes",
            points: FREQUENCY,
        },
        Experiment {
            place: "Table III (Patnaik et al.)",
            title: "counters of the CUDA Visual Profiler",
            sizes: "data set 2",
            points: PROFILE,
        },
        Experiment {
            place: "Figure 1.9a (Feng et al.)",
            title: "two-pass elimination against the hybrid algorithm, by size of episodes",
            sizes: "culture 2-1-35, threshold 3,600; 43,656 episodes of size four",
            points: TWO_PASS,
        },
        Experiment {
            place: "Figure 1.9b (Feng et al.)",
            title: "speedup of two-pass elimination by threshold and data set",
            sizes: "cultures 2-1-33, 2-1-34 and 2-1-35",
            points: SUPPORTS,
        },
        Experiment {
            place: "Figure 1.10, §1.3.2 and §1.4.3 (Feng et al.)",
            title: "registers, memory and branches of the kernels",
            sizes: "culture 2-1-33, threshold 1,650",
            points: RESOURCES,
        },
        Experiment {
            place: "§5.1 (Cao et al.)",
            title: "one thread per episode or several",
            sizes: "GTX 280",
            points: HYBRID,
        },
    ],
};
