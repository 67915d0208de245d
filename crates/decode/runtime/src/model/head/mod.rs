//! Heads: from a decoder's latents to its outputs.
//!
//! A kind is one file here: its parameters, their check, their section of the model file, the prepared
//! form and the arithmetic of a step. It is listed once, below; nothing outside this folder names it
//! except its trainer.
//!
//! Arithmetic is in f32 or f64 as each kind says, without fused multiply-add and summed in a fixed order:
//! batch and stream, and all processors, give the same bits (`arithmetic`).

#[cfg(feature = "layers")]
mod activation;
mod arithmetic;
mod blend;
mod readout;

#[cfg(feature = "layers")]
pub use activation::Activation;
use alloc::string::String;
pub use arithmetic::{sigmoid, tanh};
pub use blend::Blend;
pub use readout::FilteredReadout;

use crate::psc::flush;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest number of latents that a head takes. (A linear decoder has as many as outputs, a decoder of place as
/// many as cells.)
pub const MAX_LATENTS: usize = 64;

/// Tag of the section of [`Layers`], known to builds without them, too.
const LAYERS_TAG: [u8; 4] = *b"NETS";

/// Part of the past that is left after a head's memory.
const FORGOTTEN: f64 = 1e-7;

/// The parameters of one kind of decoder behind the linear engine.
pub(crate) trait Kind: Sized {
    type StepForm: HeadStep;
    /// The kind's name, as in `betz train --decoder`.
    const NAME: &'static str;
    /// The tag of its section of the model file.
    const TAG: [u8; 4];
    /// Largest number of latents that it takes.
    const MOST_LATENTS: usize = MAX_LATENTS;

    /// Refuses parameters that do not fit so many latents and outputs, or could give a non-finite
    /// output for finite latents.
    fn check(&self, latents: usize, outputs: usize) -> Result<()>;
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self>;
    /// The form that steps use. `self` has passed its check.
    fn prepare(&self, step_seconds: f64) -> Result<Self::StepForm>;
}

/// A kind in the form that steps use; immutable, shared by sessions.
pub(crate) trait HeadStep: core::fmt::Debug + Clone {
    /// Numbers that a session keeps from step to step; all 0 at rest.
    fn states(&self) -> usize;
    /// Room that a step works in.
    fn scratch(&self) -> usize;
    /// Steps after which its states have forgotten what was.
    fn memory_steps(&self) -> u64;
    /// Estimated instructions of a step on a processor with AVX2. A skip makes as many steps per call as its
    /// time allows.
    fn instructions(&self) -> u64;
    /// Number of states, before all others, that count steps.
    fn counters(&self) -> usize {
        0
    }
    /// Counts `steps` that are skipped.
    fn pass(&self, _steps: u64, _states: &mut [f64]) {}
    /// Takes `states` that count no steps on by `steps` of latents that do not change and lead to `end`. They near it as
    /// fast as the memory says: exact for the filter of a lift's readout, and no faster than other kinds forget.
    fn approach(&self, steps: u64, states: &mut [f64], end: &[f64]) {
        let left = float::powf(FORGOTTEN, steps as f64 / self.memory_steps() as f64);
        for (state, end) in states.iter_mut().zip(end).skip(self.counters()) {
            *state = flush(end + left * (*state - end));
        }
    }
    /// Adds all that a step depends on.
    fn hash(&self, hash: &mut Fnv1a);
    /// One step. Says whether the latents lay outside what training saw; they are clipped in place then.
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool;
}

/// Writes the enum of kinds, the enum of their prepared forms, and the match over each.
macro_rules! kinds {
    ($( $(#[$doc:meta])* $file:ident :: $Kind:ident ( $($more:ident),* ) $(if $feature:literal)? ),+ $(,)?) => {
        $(
            $(#[cfg(feature = $feature)])?
            mod $file;
            $(#[cfg(feature = $feature)])?
            pub use $file::{$Kind, $($more),*};
        )+

        /// The step from a decoder's latents to its outputs, with its parameters.
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub enum Head {
            /// Nothing: the latents are the outputs.
            #[default]
            Linear,
            $( $(#[$doc])* $(#[cfg(feature = $feature)])? $Kind($Kind), )+
        }

        impl Head {
            /// The kind by name: `linear`, `lift`, `experts`, `kalman`, `place`,
            /// `recurrent`, `layers`, `classes`, `gated`, `blend`.
            pub fn name(&self) -> &'static str {
                match self {
                    Self::Linear => "linear",
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(_) => <$Kind as Kind>::NAME, )+
                }
            }

            pub(super) fn check(&self, latents: usize, outputs: usize) -> Result<()> {
                match self {
                    Self::Linear => {
                        expect("intercept, in a linear decoder one per output", latents, outputs)
                    }
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => {
                        let most = <$Kind as Kind>::MOST_LATENTS;
                        if latents > most {
                            return refuse(format!(
                                "{}: expected at most {most} latents, got {latents}",
                                self.name()
                            ));
                        }
                        kind.check(latents, outputs).map_err(|e| e.at(self.name()))
                    } )+
                }
            }

            pub(super) fn tag(&self) -> Option<[u8; 4]> {
                match self {
                    Self::Linear => None,
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(_) => Some(<$Kind as Kind>::TAG), )+
                }
            }

            pub(super) fn write(&self, to: &mut Writer) {
                match self {
                    Self::Linear => {}
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.write(to), )+
                }
            }

            /// The head in a section of `tag`; `None` where no kind has that tag.
            pub(super) fn read(tag: [u8; 4], from: &mut Reader<'_>) -> Result<Option<Self>> {
                Ok(match tag {
                    $( $(#[cfg(feature = $feature)])? <$Kind as Kind>::TAG => Some(Self::$Kind(<$Kind as Kind>::read(from)?)), )+
                    #[cfg(not(feature = "layers"))]
                    LAYERS_TAG => {
                        return Err(Error::new(
                            ErrorKind::UnsupportedVersion,
                            "layers: this build of Betz has no chains of layers; it needs the feature \"layers\", which the command line and Python have",
                        ));
                    }
                    _ => None,
                })
            }

            pub(crate) fn prepare(&self, step_seconds: f64) -> Result<PreparedHead> {
                Ok(match self {
                    Self::Linear => PreparedHead::Linear,
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => PreparedHead::$Kind(kind.prepare(step_seconds)?), )+
                })
            }
        }

        /// The head in the form that steps use; matched once per step.
        #[derive(Debug, Clone)]
        pub(crate) enum PreparedHead {
            Linear,
            $( $(#[cfg(feature = $feature)])? $Kind(<$Kind as Kind>::StepForm), )+
        }

        impl PreparedHead {
            pub(crate) fn states(&self) -> usize {
                match self { Self::Linear => 0, $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.states(), )+ }
            }

            pub(crate) fn scratch(&self) -> usize {
                match self { Self::Linear => 0, $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.scratch(), )+ }
            }

            pub(crate) fn memory_steps(&self) -> u64 {
                match self { Self::Linear => 0, $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.memory_steps(), )+ }
            }

            pub(crate) fn approach(&self, steps: u64, states: &mut [f64], end: &[f64]) {
                match self {
                    Self::Linear => {}
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.approach(steps, states, end), )+
                }
            }

            /// Estimated instructions of a step.
            pub(crate) fn instructions(&self) -> u64 {
                match self { Self::Linear => 0, $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.instructions(), )+ }
            }

            /// Counts steps that are skipped.
            pub(crate) fn pass(&self, steps: u64, states: &mut [f64]) {
                match self {
                    Self::Linear => {}
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.pass(steps, states), )+
                }
            }

            /// Number of states, before all others, that count steps.
            pub(crate) fn counters(&self) -> usize {
                match self { Self::Linear => 0, $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.counters(), )+ }
            }

            /// Ticks after which e⁻⁴⁰ is left of its states: two and a half times its memory.
            pub(crate) fn skip_steps(&self) -> u64 {
                self.memory_steps().saturating_mul(5) / 2
            }

            pub(crate) fn hash(&self, hash: &mut Fnv1a) {
                match self {
                    Self::Linear => {}
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => {
                        hash.bytes(&<$Kind as Kind>::TAG);
                        kind.hash(hash);
                    } )+
                }
            }

            /// One step of a head that is not linear.
            #[inline(always)]
            pub(crate) fn step(
                &self,
                latents: &mut [f64],
                states: &mut [f64],
                scratch: &mut [f32],
                outputs: &mut [f64],
            ) -> bool {
                match self {
                    Self::Linear => false,
                    $( $(#[cfg(feature = $feature)])? Self::$Kind(kind) => kind.step(latents, states, scratch, outputs), )+
                }
            }
        }
    };
}

kinds! {
    /// Cosines of random projections beside the latents, read out linearly.
    lift::Lift(Cosines, MAX_UNITS),
    /// Linear readouts, one per expert, weighted by a soft gate on the latents.
    experts::Experts(Gate, MAX_EXPERTS),
    /// A Kalman filter in its steady state: a recursion of the outputs behind its gain.
    kalman::Kalman(MAX_STATES),
    /// Bayes' rule on a grid of places.
    place::Place(Belief, MAX_CELLS),
    /// Layers of gated recurrent units, read out linearly.
    recurrent::Recurrent(Cell, RecurrentLayer, RecurrentMember, MAX_LAYERS, MAX_LAYER_UNITS, MAX_MEMBERS),
    /// Layers of a network of another program, one after another.
    layers::Layers(Layer) if "layers",
    /// Probabilities of classes by multinomial logistic regression.
    classes::Classes(EventRule, Markov, MAX_CLASSES),
    /// Linear outputs, some of which the probability of a class gates.
    gated::VelocityGate(),
    /// Whole decoders side by side, whose estimates are averaged.
    model_blend::ModelBlend(BlendMember, MAX_BLEND_MEMBERS),
}

impl Head {
    /// The probabilities of classes that a step computes, and the names of the classes where they are not the outputs.
    pub(crate) fn classes(&self) -> Option<(&Classes, Option<&[String]>)> {
        match self {
            Self::Classes(classes) => Some((classes, None)),
            Self::VelocityGate(gated) => Some((&gated.classes, Some(&gated.names))),
            _ => None,
        }
    }
}

impl PreparedHead {
    /// Weights of the members of a blend, the first one's first; empty for other kinds.
    pub(crate) fn blend_weights(&self) -> &[f64] {
        match self {
            Self::ModelBlend(blend) => &blend.weights,
            _ => &[],
        }
    }

    /// Number of probabilities that a step writes behind the estimates.
    pub(crate) fn hidden_classes(&self) -> usize {
        match self {
            Self::VelocityGate(gated) => gated.classes(),
            _ => 0,
        }
    }
}

impl Head {
    /// This head with the outputs of `variance`, of the same features, behind its own, for a decoder of so many latents and outputs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for a readout that does not fit, and a head without features.
    pub(crate) fn with_variance(
        &self,
        variance: &FilteredReadout,
        latents: usize,
        outputs: usize,
    ) -> Result<Self> {
        let head = match self {
            Self::ModelBlend(blend) => {
                let own = blend.own.with_variance(variance, latents, outputs)?;
                return Ok(Self::ModelBlend(ModelBlend {
                    own: alloc::boxed::Box::new(own),
                    ..blend.clone()
                }));
            }
            Self::Lift(lift) => Self::Lift(Lift {
                readout: lift.readout.beside(variance)?,
                ..lift.clone()
            }),
            Self::Experts(experts) => Self::Experts(Experts {
                readout: experts.readout.beside(variance)?,
                ..experts.clone()
            }),
            _ => {
                return refuse(format!(
                    "log-variances: expected a lift or experts, got {}",
                    self.name()
                ));
            }
        };
        head.check(latents, 2 * outputs)?;
        Ok(head)
    }
}

/// Clips latents radially: z ← z·min(1, R/|z|). Says whether they were clipped.
///
/// Latents have unit variance in training, so |z| says how far out a step lies; R is about the largest
/// that training saw. Beyond it a nonlinear head has seen nothing, and its linear part would run away.
#[inline(always)]
fn clip(latents: &mut [f64], radius: f64) -> bool {
    let square: f64 = latents.iter().map(|z| z * z).sum();
    if square <= radius * radius {
        return false;
    }
    let factor = radius / square.sqrt();
    latents.iter_mut().for_each(|z| *z *= factor);
    true
}

fn check_radius(radius: f64) -> Result<()> {
    if (1e-6..=1e6).contains(&radius) {
        return Ok(());
    }
    refuse(format!("radius: expected 1e-6 to 1e6, got {radius}"))
}

fn expect(what: &str, got: usize, expected: usize) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    refuse(format!("{what}: expected {expected} values, got {got}"))
}

fn check_finite<T: Copy + Into<f64>>(what: &str, values: &[T], most: f64) -> Result<()> {
    for (i, &value) in values.iter().enumerate() {
        let value: f64 = value.into();
        if value.is_nan() || value.abs() > most {
            return refuse(format!(
                "{what}[{i}]: expected a finite value of at most {most:e}, got {value}"
            ));
        }
    }
    Ok(())
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidModel, reason))
}
