//! Filter banks to start from, and which of them are worth trying on a recording.

use betz_recording::DatasetView;
use betz_runtime::psc::{Filter, FilterBank};

/// A named bank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// Use of the preset.
    pub about: &'static str,
    filters: &'static [(f64, u32)],
}

/// Every preset, fewest filters first.
pub const PRESETS: [Preset; 4] = [
    Preset {
        name: "single",
        about: "one filter of 10 ms, order 1: fast signals from many spikes",
        filters: &[(0.01, 1)],
    },
    Preset {
        name: "slow",
        about: "five filters, 0.1 to 10 s: position and other slow states",
        filters: &[(0.1, 1), (0.5, 1), (2.0, 1), (5.0, 1), (10.0, 0)],
    },
    Preset {
        name: "reach",
        about: "nine filters, 10 to 800 ms: the course of a reaching movement",
        filters: &[
            (0.01, 0),
            (0.01, 1),
            (0.03, 3),
            (0.05, 4),
            (0.08, 4),
            (0.12, 4),
            (0.2, 4),
            (0.3, 1),
            (0.8, 0),
        ],
    },
    Preset {
        name: "wide",
        about: "twelve filters, 10 ms to 3 s, for long recordings of few channels",
        filters: &[
            (0.01, 0),
            (0.01, 1),
            (0.05, 1),
            (0.05, 3),
            (0.1, 0),
            (0.1, 1),
            (0.1, 2),
            (0.1, 4),
            (0.2, 2),
            (0.3, 1),
            (0.8, 0),
            (3.0, 0),
        ],
    },
];

/// Rows of a system beyond which a preset is not tried unasked: Γ of one fold is then 128 MB, and solving takes minutes.
const MOST_ROWS: usize = 4096;

impl Preset {
    /// The preset called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|p| p.name == name)
    }

    /// Its filters.
    ///
    /// # Errors
    /// None for the presets there are; a bank is checked like any other.
    pub fn bank(&self) -> betz_base::Result<FilterBank> {
        let filters = self.filters.iter();
        let filters = filters.map(|&(tau_seconds, order)| Filter { tau_seconds, order });
        FilterBank::new(filters.collect())
    }

    /// The presets that are tried on `data`: all, since the ridge tells how much of a bank the data support. `single` is
    /// always tried; others are left out where both their features and the steps number more than 4,096.
    pub fn candidates<'d>(data: impl Into<DatasetView<'d>>) -> Vec<&'static Self> {
        let data = &data.into();
        let steps = data.steps_in_segments();
        let rows = |p: &Self| steps.min(data.channels() * p.filters.len());
        let fits = |p: &&Self| p.filters.len() == 1 || rows(p) <= MOST_ROWS;
        PRESETS.iter().filter(fits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_bank_and_found_by_name() {
        for preset in &PRESETS {
            assert_eq!(preset.bank().unwrap().len(), preset.filters.len());
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("none"), None);
    }

    #[test]
    fn banks_are_left_out_only_where_systems_are_large() {
        let names = |channels, steps| {
            let data = betz_gram::cases::dataset(channels, &[(0, steps)], vec![], 1);
            let names = Preset::candidates(&data).into_iter().map(|p| p.name);
            names.collect::<Vec<_>>()
        };
        let all = ["single", "slow", "reach", "wide"];
        assert_eq!(names(1000, 5000), ["single"]);
        assert_eq!(names(1000, 4000), all);
        assert_eq!(names(500, 100_000), ["single", "slow"]);
        assert_eq!(names(285, 100_000), all);
        assert_eq!(names(95, 500), all);
    }
}
