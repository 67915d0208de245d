//! The table of kinds of decoders: the ways in which each is trained, and its part in comparisons. Code that differs between
//! kinds only in such a fact reads it here.

use super::Kind;

/// Facts about the training of one kind of decoder.
///
/// ```
/// use betz_train::Kind;
///
/// let names = |has: fn(Kind) -> bool| -> Vec<&str> {
///     Kind::ALL.into_iter().filter(|kind| has(*kind)).map(Kind::name).collect()
/// };
/// assert_eq!(names(|kind| kind.traits().stored_statistics), ["linear", "lift", "experts", "blend"]);
/// assert_eq!(names(|kind| kind.traits().chunks), ["linear"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct KindTraits {
    /// Name in options, files and messages.
    pub name: &'static str,
    /// It can be trained from a recording that is read in chunks ([`long`](crate::long)).
    pub chunks: bool,
    /// It can be trained from merged sums of several recordings ([`sums`](crate::sums)).
    pub sums: bool,
    /// It can adapt during a session ([`online`](crate::online)).
    pub online: bool,
    /// Its model can store the sufficient statistics of its training ([`retained`](crate::retained)), so that channels can
    /// be dropped.
    pub stored_statistics: bool,
    /// Devices compute more of its training than the linear engine's sums.
    pub device: bool,
    /// Weight in a blend before held-out data are seen; `None` for a kind that cannot be a member. 0 for the linear
    /// member, which is only there for what the others miss.
    pub blend_prior: Option<f64>,
    /// Its training holds matrices of the features by the features, in addition to the sums.
    pub(super) wide: bool,
    /// It reads latents of the linear engine.
    pub(super) latents: bool,
}

/// A row with everything absent.
const NOTHING: KindTraits = KindTraits {
    name: "",
    chunks: false,
    sums: false,
    online: false,
    stored_statistics: false,
    device: false,
    blend_prior: None,
    wide: false,
    latents: false,
};

/// A row of a kind behind latents.
const BEHIND_LATENTS: KindTraits = KindTraits {
    online: true,
    stored_statistics: true,
    device: true,
    blend_prior: Some(0.25),
    wide: true,
    latents: true,
    ..NOTHING
};

const LINEAR: KindTraits = KindTraits {
    name: "linear",
    chunks: true,
    sums: true,
    online: true,
    stored_statistics: true,
    blend_prior: Some(0.0),
    ..NOTHING
};
const LIFT: KindTraits = KindTraits {
    name: "lift",
    ..BEHIND_LATENTS
};
const EXPERTS: KindTraits = KindTraits {
    name: "experts",
    ..BEHIND_LATENTS
};
const KALMAN: KindTraits = KindTraits {
    name: "kalman",
    wide: true,
    ..NOTHING
};
const REFIT: KindTraits = KindTraits {
    name: "refit",
    ..KALMAN
};
const PLACE: KindTraits = KindTraits {
    name: "place",
    ..NOTHING
};
const RECURRENT: KindTraits = KindTraits {
    name: "recurrent",
    online: cfg!(feature = "tuning"),
    device: true,
    blend_prior: Some(0.5),
    ..NOTHING
};
/// A blend adapts and stores statistics through its members.
const BLEND: KindTraits = KindTraits {
    name: "blend",
    online: true,
    stored_statistics: true,
    device: true,
    ..NOTHING
};

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Linear,
        Self::Lift,
        Self::Experts,
        Self::Kalman,
        Self::Refit,
        Self::Place,
        Self::Recurrent,
        Self::Blend,
    ];

    /// The row of this kind.
    pub const fn traits(self) -> &'static KindTraits {
        match self {
            Self::Linear => &LINEAR,
            Self::Lift => &LIFT,
            Self::Experts => &EXPERTS,
            Self::Kalman => &KALMAN,
            Self::Refit => &REFIT,
            Self::Place => &PLACE,
            Self::Recurrent => &RECURRENT,
            Self::Blend => &BLEND,
        }
    }

    /// `linear`, `lift`, `experts`, `kalman`, `refit`, `place`, `recurrent` or `blend`.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// Returns true if this kind can be a member of a blend.
    pub(super) const fn is_member(self) -> bool {
        self.traits().blend_prior.is_some()
    }
}

/// Names of the kinds for which `has` holds, as a list in a message: "linear, lift and experts".
pub(super) fn names(has: impl Fn(&KindTraits) -> bool) -> String {
    let names: Vec<&str> = (Kind::ALL.into_iter().map(Kind::traits))
        .filter(|traits| has(traits))
        .map(|traits| traits.name)
        .collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::reaches;
    use super::*;
    use crate::KindOptions;
    use crate::online::{TrainerConfig, Worker};
    use crate::retained::StoredStatistics;
    use crate::training::Training;
    use betz_device::Device;

    /// The table says what training, adaptation and blends do.
    #[test]
    fn rows_are_true() {
        let data = reaches(40, 1);
        let train = |kinds: &[Kind], retain| {
            let training = Training {
                bank: Some(betz_gram::cases::bank(&[(0.1, 1)])),
                folds: 3,
                retain,
                kinds: KindOptions {
                    latents: Some(2),
                    units: Some(8),
                    experts: Some(2),
                    cells: Some(6),
                    layers: Some(vec![16]),
                    mixed: Some(0),
                    epochs: Some(2),
                    ..KindOptions::among(kinds)
                },
                ..Training::default()
            };
            training.run(&data, &Device::cpu(), &())
        };
        for kind in Kind::ALL {
            let (traits, name) = (kind.traits(), kind.name());
            let kinds: &[Kind] = match kind {
                Kind::Blend => &[Kind::Linear, Kind::Lift, Kind::Blend],
                _ => &[kind],
            };
            let plain = train(kinds, None).unwrap().decoder;
            let retaining = train(kinds, Some(1 << 24));
            assert_eq!(retaining.is_ok(), traits.stored_statistics, "{name}");
            let decoder = retaining.map_or(plain, |outcome| outcome.decoder);
            // A blend's members have statistics of their own.
            if kind != Kind::Blend {
                let stored = StoredStatistics::read(&decoder).is_ok();
                assert_eq!(stored, traits.stored_statistics, "{name}");
            }
            let adapts = Worker::open(&decoder, TrainerConfig::default()).is_ok();
            assert_eq!(adapts, traits.online, "{name}");
            if kind != Kind::Blend {
                let blend = train(&[Kind::Linear, kind, Kind::Blend], None);
                assert_eq!(blend.is_ok(), traits.blend_prior.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn names_are_a_list() {
        assert_eq!(names(|t| t.chunks), "linear");
        assert_eq!(names(|t| t.latents), "lift and experts");
        assert_eq!(
            names(|t| t.blend_prior.is_some()),
            "linear, lift, experts and recurrent"
        );
        assert_eq!(names(|_| false), "");
    }
}
