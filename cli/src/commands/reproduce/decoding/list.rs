//! The experiments of chapter 5 of Galbraith 2010.

use super::super::study::{Experiment, Point, Study, point};

const CONVOLUTION: &[Point] = &[
    point("steps of 100 s at 0.25 ms", "400,000"),
    point(
        "CUFFT over FFTW",
        "significantly better at all four lengths",
    ),
    point("speedup of the phases of convolution", "nearly 10 ×"),
];

const COMPONENTS: &[Point] = &[
    point(
        "1,000 neurons of 400,000 steps, four bytes each",
        "about 1.6 GB",
    ),
    point("Γ dominates the cost", "of the weights"),
    point("GPU against CPU", "faster for Γ alone"),
];

const WEIGHTS: &[Point] = &[point("GPU finds the weights sooner", "from 150 neurons on")];

const WHOLE: &[Point] = &[
    point("GPU over CPU, 80 neurons and more", "about 6 ×"),
    point(
        "1,000 neurons on 36 nodes (Herzfeld and Beardsley)",
        "about an hour",
    ),
];

const ACCURACY: &[Point] = &[
    point("150 neurons, single units: NRMSE", "0.115"),
    point("150 neurons, multi-unit: NRMSE", "0.171"),
    point("estimates against the input", "very little difference"),
];

const TRANSFERS: &[Point] = &[
    point("least number of transfers (t_m = t_k = 1)", "3"),
    point("best t_m", "frequently 1"),
    point(
        "transfers with 896 MB against 512 MB",
        "significantly fewer",
    ),
];

const SQUARE: &[Point] = &[
    point("speedup up to 20k × 20k", "around 12 ×"),
    point("sides that are faster than their neighbours", "4k and 8k"),
    point("the shared dimension is cut from", "9k on"),
    point("the leading dimension is cut from", "15k on"),
];

const RECTANGULAR: &[Point] = &[
    point("speedup for m = n = 10k", "about that of 10k × 10k"),
    point("the leading dimension is cut", "for no k"),
];

pub(crate) const STUDY: Study = Study {
    name: "decoding",
    title: "Neural decoding and CUSUMMA: chapter 5 of a thesis made again",
    sources: &[
        "B. V. Galbraith: Computational modeling of biological neural networks on GPUs: strategies and performance. Master's thesis, Marquette University, 2010, chapter 5.",
    ],
    machines: "Intel Core 2 Duo E4500 with a Quadro FX 3700 (512 MB); AMD Phenom 9500 with a GeForce GTX 260 (896 MB)",
    remarks: &[
        "The thesis gives its times in pictures alone; its text gives the numbers below.",
        "Parameters of the population are drawn from ranges that the thesis does not give, and it does not say by what it divides the RMSE. Here rates are 20 to 60 spikes/s, and NRMSE is the RMSE over the standard deviation, in the mean of x and y. Higher rates alone make every error several times smaller.",
    ],
    experiments: &[
        Experiment {
            place: "Figure 5.2",
            title: "convolution with a PSC by the length of the signal",
            sizes: "four unstated powers of two; 400,000 steps in the experiment",
            points: CONVOLUTION,
        },
        Experiment {
            place: "Figure 5.3",
            title: "parts of the weights: Γ and Υ, inversion, φ",
            sizes: "10, 80, 150, 300 and 1,000 neurons, 100 s at 0.25 ms",
            points: COMPONENTS,
        },
        Experiment {
            place: "Figure 5.4",
            title: "all of the weights",
            sizes: "as Figure 5.3",
            points: WEIGHTS,
        },
        Experiment {
            place: "Figure 5.5",
            title: "the whole simulation",
            sizes: "as Figure 5.3, and 10 s of a test",
            points: WHOLE,
        },
        Experiment {
            place: "§5.1.2, Figure 5.6",
            title: "accuracy",
            sizes: "150 neurons, 10 s not trained on",
            points: ACCURACY,
        },
        Experiment {
            place: "Figures 5.7 and 5.8",
            title: "transfers of the iterative solver",
            sizes: "m = n = k = 20k; m = n = 1k, k = 400k; 512 and 896 MB, 15 MB of which are left free",
            points: TRANSFERS,
        },
        Experiment {
            place: "Figure 5.9",
            title: "square products",
            sizes: "1k to 20k",
            points: SQUARE,
        },
        Experiment {
            place: "Figure 5.10",
            title: "rectangular products",
            sizes: "m = n = 10k, k varied",
            points: RECTANGULAR,
        },
    ],
};
