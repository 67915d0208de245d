//! The experiments of the thesis on correlation networks.

use super::super::study::{Experiment, Point, Study, point};

/// A row of Tables I to III, as printed.
pub(super) struct Row {
    pub(super) nodes: usize,
    /// Lengths of windows in Table I.
    pub(super) listed: &'static [usize],
    /// Lengths of windows by the steps of Table III; a row of times is their mean.
    pub(super) windows: &'static [usize],
    pub(super) coefficients: u64,
    pub(super) total: f64,
    pub(super) gpu: f64,
    pub(super) waiting: f64,
    pub(super) covariance_ms: f64,
    pub(super) correlation_ms: f64,
    pub(super) steps: u32,
    pub(super) windows_per_step: u32,
}

const ALL: &[usize] = &[25, 50, 75, 100, 125, 150, 175, 200];

#[rustfmt::skip]
pub(super) const ROWS: [Row; 9] = [
    Row { nodes: 100, listed: ALL, windows: ALL, coefficients: 8_870_000, total: 28.125, gpu: 0.084, waiting: 27.125, covariance_ms: 83.353, correlation_ms: 0.81, steps: 1, windows_per_step: 889 },
    Row { nodes: 200, listed: ALL, windows: ALL, coefficients: 35_480_000, total: 92.0, gpu: 0.309, waiting: 90.5, covariance_ms: 306.773, correlation_ms: 2.095, steps: 1, windows_per_step: 889 },
    Row { nodes: 400, listed: ALL, windows: ALL, coefficients: 141_920_000, total: 295.625, gpu: 1.177, waiting: 290.875, covariance_ms: 1170.549, correlation_ms: 6.719, steps: 1, windows_per_step: 889 },
    Row { nodes: 800, listed: ALL, windows: ALL, coefficients: 567_680_000, total: 1149.125, gpu: 4.709, waiting: 1133.5, covariance_ms: 669.41, correlation_ms: 3.36, steps: 7, windows_per_step: 127 },
    Row { nodes: 1600, listed: ALL, windows: ALL, coefficients: 2_270_720_000, total: 4674.5, gpu: 19.16, waiting: 4618.625, covariance_ms: 488.944, correlation_ms: 2.343, steps: 39, windows_per_step: 23 },
    Row { nodes: 3200, listed: ALL, windows: ALL, coefficients: 9_082_880_000, total: 18_493.0, gpu: 76.296, waiting: 18_279.0, covariance_ms: 377.731, correlation_ms: 1.852, steps: 201, windows_per_step: 4 },
    Row { nodes: 6400, listed: ALL, windows: &[200], coefficients: 36_331_520_000, total: 72_485.75, gpu: 304.284, waiting: 71_616.75, covariance_ms: 378.029, correlation_ms: 1.852, steps: 801, windows_per_step: 1 },
    Row { nodes: 12_800, listed: &[100], windows: &[100], coefficients: 18_350_080_000, total: 307_466.0, gpu: 1106.469, waiting: 303_913.0, covariance_ms: 1221.42, correlation_ms: 6.625, steps: 901, windows_per_step: 1 },
    Row { nodes: 22_360, listed: &[200], windows: &[200], coefficients: 49_996_960_000, total: 833_987.0, gpu: 5928.43, waiting: 821_084.0, covariance_ms: 7380.215, correlation_ms: 21.07, steps: 801, windows_per_step: 1 },
];

const COEFFICIENTS: &[Point] = &[
    point("100 nodes: coefficients", "8,870,000"),
    point("200 nodes: coefficients", "35,480,000"),
    point("400 nodes: coefficients", "141,920,000"),
    point("800 nodes: coefficients", "567,680,000"),
    point("1,600 nodes: coefficients", "2,270,720,000"),
    point("3,200 nodes: coefficients", "9,082,880,000"),
    point("6,400 nodes: coefficients", "36,331,520,000"),
    point("12,800 nodes: coefficients", "18,350,080,000"),
    point("22,360 nodes: coefficients", "49,996,960,000"),
    point("pixels of a frame of 130 × 172", "22,360"),
];

const TIMES: &[Point] = &[
    point("100 nodes: total; GPU; waiting, s", "28.125; 0.084; 27.125"),
    point("200 nodes: total; GPU; waiting, s", "92; 0.309; 90.5"),
    point(
        "400 nodes: total; GPU; waiting, s",
        "295.625; 1.177; 290.875",
    ),
    point(
        "800 nodes: total; GPU; waiting, s",
        "1149.125; 4.709; 1133.5",
    ),
    point(
        "1,600 nodes: total; GPU; waiting, s",
        "4674.5; 19.16; 4618.625",
    ),
    point(
        "3,200 nodes: total; GPU; waiting, s",
        "18493; 76.296; 18279",
    ),
    point(
        "6,400 nodes: total; GPU; waiting, s",
        "72485.75; 304.284; 71616.75",
    ),
    point(
        "12,800 nodes: total; GPU; waiting, s",
        "307466; 1106.469; 303913",
    ),
    point(
        "22,360 nodes: total; GPU; waiting, s",
        "833987; 5928.43; 821084",
    ),
    point(
        "GPU % by row",
        "0.299, 0.336, 0.398, 0.41, 0.41, 0.413, 0.42, 0.36, 0.711",
    ),
    point(
        "waiting % by row",
        "96.444, 98.37, 98.393, 98.64, 98.805, 98.843, 98.801, 98.844, 98.453",
    ),
    point(
        "GPU time is the steps times both kernels of Table III",
        "(not stated)",
    ),
];

const GROWTH: &[Point] = &[point("GPU time by the number of nodes", "linear growth")];

const SHARES: &[Point] = &[point(
    "share of the time that waits for results to be saved",
    "96 to 99 %",
)];

const KERNELS: &[Point] = &[
    point("100 nodes: covariance; correlation, ms", "83.353; 0.81"),
    point("200 nodes: covariance; correlation, ms", "306.773; 2.095"),
    point("400 nodes: covariance; correlation, ms", "1170.549; 6.719"),
    point("800 nodes: covariance; correlation, ms", "669.41; 3.36"),
    point("1,600 nodes: covariance; correlation, ms", "488.944; 2.343"),
    point("3,200 nodes: covariance; correlation, ms", "377.731; 1.852"),
    point("6,400 nodes: covariance; correlation, ms", "378.029; 1.852"),
    point(
        "12,800 nodes: covariance; correlation, ms",
        "1221.42; 6.625",
    ),
    point(
        "22,360 nodes: covariance; correlation, ms",
        "7380.215; 21.07",
    ),
    point("covariance over correlation", "about 80 ×"),
    point("cost of the covariance by the length W of a window", "O(W)"),
];

const STEPS: &[Point] = &[
    point("steps by row", "1, 1, 1, 7, 39, 201, 801, 901, 801"),
    point(
        "windows per step by row",
        "889, 889, 889, 127, 23, 4, 1, 1, 1",
    ),
];

const BANDWIDTH: &[Point] = &[
    point("effective bandwidth of both kernels", "a figure"),
    point("memory bandwidth of a GTX 770", "224 GB/s"),
];

pub(crate) const STUDY: Study = Study {
    name: "networks",
    title: "Correlation networks over sliding windows: a thesis made again",
    sources: &[
        "S. Purgato: dynamic networks of the brain, computed on GPUs and visualised. Master's thesis, University of Illinois at Chicago, 2016.",
    ],
    machines: "Intel i7 960 at 3.20 GHz, three Nvidia GeForce GTX 770 of 4 GB",
    remarks: &[
        "The video of the brain slice is not published. A made one of the same size (1,000 frames of 130 × 172 pixels of a byte) stands for it; nodes are pixels drawn at random.",
        "The thesis saves every correlation as text. Betz computes every correlation, too, but keeps those of at least 0.9 in size (edges), in a file of .npz.",
    ],
    experiments: &[
        Experiment {
            place: "Table I",
            title: "number of coefficients",
            sizes: "100 to 22,360 nodes, 1,000 frames, windows of 25 to 200",
            points: COEFFICIENTS,
        },
        Experiment {
            place: "Table II",
            title: "seconds of the program",
            sizes: "100 to 22,360 nodes; means over windows of 25 to 200",
            points: TIMES,
        },
        Experiment {
            place: "Figure 15",
            title: "parts of the time",
            sizes: "as Table II",
            points: SHARES,
        },
        Experiment {
            place: "Figure 16",
            title: "GPU time by the number of nodes",
            sizes: "as Table II",
            points: GROWTH,
        },
        Experiment {
            place: "Table III",
            title: "milliseconds of a call of each kernel",
            sizes: "as Table I",
            points: KERNELS,
        },
        Experiment {
            place: "Figure 17, Table III",
            title: "steps, and windows per step",
            sizes: "as Table I, 4 GB per GPU",
            points: STEPS,
        },
        Experiment {
            place: "Figure 18",
            title: "effective bandwidth",
            sizes: "as Table I",
            points: BANDWIDTH,
        },
    ],
};
