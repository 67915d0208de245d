//! Kinds of decoders in training: their names, and the library that has more than the linear one.
//!
//! `classes` and `lda` are no kinds among which training chooses: their behaviour is a column of labels.

use std::ffi::c_char;

use betz::device::Device;
use betz::progress::Progress;
use betz::recording::Dataset;
use betz::train::{Kind, Training, TrainingOutcome};

use crate::cast;
use crate::failure::{Failure, Result};

/// Every kind that a caller may name.
const KINDS: [Kind; 7] = [
    Kind::Linear,
    Kind::Lift,
    Kind::Experts,
    Kind::Kalman,
    Kind::Refit,
    Kind::Place,
    Kind::Recurrent,
];

/// Kinds to choose from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    Linear,
    Auto,
    Among(Vec<Kind>),
    Classes,
    Discriminant,
}

/// Settings of kinds other than the linear one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindSettings {
    pub(crate) variance: bool,
    /// Seed of random projections, clusters and networks.
    pub(crate) seed: u64,
}

/// Reads the names of kinds.
///
/// # Safety
/// `names` is NULL or NUL-terminated text.
pub(crate) unsafe fn read_kinds(names: *const c_char) -> Result<Kinds> {
    if names.is_null() {
        return Ok(Kinds::Linear);
    }
    // SAFETY: the caller's promise.
    parse(unsafe { cast::text(names, "config->decoder")? })
}

fn parse(names: &str) -> Result<Kinds> {
    match names.trim() {
        "auto" => return Ok(Kinds::Auto),
        "classes" => return Ok(Kinds::Classes),
        "lda" => return Ok(Kinds::Discriminant),
        _ => {}
    }
    let unknown = Failure::Argument {
        name: "config->decoder",
        expected: "\"auto\", \"classes\", \"lda\", or names of kinds separated by commas: linear, lift, experts, kalman, refit, place, recurrent",
    };
    let kind = |name: &str| KINDS.into_iter().find(|kind| kind.name() == name.trim());
    let kinds: Option<Vec<Kind>> = names.split(',').map(kind).collect();
    let kinds = kinds.ok_or(unknown)?;
    Ok(match kinds[..] {
        [Kind::Linear] => Kinds::Linear,
        _ => Kinds::Among(kinds),
    })
}

impl Kinds {
    /// Trains the kind that decodes best.
    pub(crate) fn run(
        self,
        training: Training,
        settings: KindSettings,
        data: &Dataset,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<TrainingOutcome> {
        if self == Self::Linear {
            return Ok(training.run_linear(data, device, progress)?);
        }
        self.choose(
            Training {
                variance: settings.variance,
                ..training
            },
            settings.seed,
            data,
            device,
            progress,
        )
    }

    #[cfg(feature = "kinds")]
    fn choose(
        self,
        training: Training,
        seed: u64,
        data: &Dataset,
        device: &Device,
        progress: &dyn Progress,
    ) -> Result<TrainingOutcome> {
        use betz::train::KindOptions;

        if training.folds < 2 {
            return Err(Failure::Argument {
                name: "config->folds",
                expected: "at least 2, to choose and to score a kind other than linear",
            });
        }
        let kinds = match &self {
            Self::Linear | Self::Classes | Self::Discriminant => KindOptions::linear(),
            Self::Auto => KindOptions::auto(),
            Self::Among(kinds) => KindOptions::among(kinds),
        };
        let training = Training {
            kinds: KindOptions { seed, ..kinds },
            ..training
        };
        if matches!(self, Self::Classes | Self::Discriminant) {
            let by_sums = self == Self::Discriminant;
            return run_classes((&training, by_sums), data, device, progress);
        }
        Ok(training.run(data, device, progress)?)
    }

    #[cfg(not(feature = "kinds"))]
    fn choose(
        self,
        _training: Training,
        _seed: u64,
        _data: &Dataset,
        _device: &Device,
        _progress: &dyn Progress,
    ) -> Result<TrainingOutcome> {
        Err(Failure::Argument {
            name: "config->decoder",
            expected: "\"linear\": this library trains no other kind (one with the feature \"kinds\" does: scripts/install.sh --parts training,kinds)",
        })
    }
}

/// Trains on labels, the only column of behaviour: a softmax, or by sums a linear discriminant.
#[cfg(feature = "kinds")]
fn run_classes(
    (training, by_sums): (&Training, bool),
    data: &Dataset,
    device: &Device,
    progress: &dyn Progress,
) -> Result<TrainingOutcome> {
    use betz::recording::labels::Labels;
    use betz::train::ClassOptions;

    if data.outputs.len() != 1 {
        return Err(Failure::Argument {
            name: "outputs",
            expected: "1 for the decoders \"classes\" and \"lda\": a column of labels",
        });
    }
    let labels = Labels::from_numbers(&data.behavior, data)?;
    let options = ClassOptions::default();
    let (outcome, _) = match by_sums {
        true => training.run_discriminant(data, &labels, &options, device, progress)?,
        false => training.run_classes(data, &labels, &options, device, progress)?,
    };
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kinds() {
        assert_eq!(parse("linear").unwrap(), Kinds::Linear);
        assert_eq!(parse("auto").unwrap(), Kinds::Auto);
        assert_eq!(parse("classes").unwrap(), Kinds::Classes);
        assert_eq!(parse("lda").unwrap(), Kinds::Discriminant);
        let two = Kinds::Among(vec![Kind::Lift, Kind::Recurrent]);
        assert_eq!(parse("lift, recurrent").unwrap(), two);
        for kind in KINDS {
            assert!(parse(kind.name()).is_ok());
        }
        for wrong in [
            "",
            "Linear",
            "lift,",
            "auto,lift",
            "classes,lift",
            "lda,lift",
            "cubic",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
