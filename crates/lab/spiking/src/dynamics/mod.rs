//! Neuron models by name: one file each, which `kernels/spiking_model_NAME.cuh` repeats for devices.
//!
//! A model is a system of ordinary differential equations with a threshold and a reset. The engine integrates it by the
//! classical Runge-Kutta method of order 4 in equal sub-steps of at most the model's [`Model::longest_ms`]. Input is taken
//! at its value at the beginning, the middle and the end of every sub-step. A neuron that crosses its threshold at the
//! end of a sub-step is reset at the step's end and rests until then, unless its model has no reset.

mod adex;
mod hh;
mod izhikevich;
mod lif;
mod qif;
mod theta;

pub(crate) use adex::Adex;
pub(crate) use hh::HodgkinHuxley;
pub(crate) use izhikevich::Izhikevich;
pub(crate) use lif::LeakyIntegrator;
pub(crate) use qif::Quadratic;
pub(crate) use theta::Theta;

/// One parameter of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name in a network's description, with its unit.
    pub name: &'static str,
    /// Value unless another is given.
    pub default: f64,
    /// Least value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Meaning.
    pub text: &'static str,
}

/// A parameter of a model's table.
const fn parameter(
    name: &'static str,
    default: f64,
    range: (f64, f64),
    text: &'static str,
) -> Parameter {
    Parameter {
        name,
        default,
        low: range.0,
        high: range.1,
        text,
    }
}

/// A neuron model as it is listed: its name, equations and parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Its name in a network's description.
    pub name: &'static str,
    /// Its equations and their source.
    pub text: &'static str,
    /// Its state variables; the first one is the potential.
    pub states: &'static [&'static str],
    /// Its parameters, in the order of the equations' arrays.
    pub parameters: &'static [Parameter],
    /// Longest sub-step of the integrator in ms.
    pub longest_ms: f64,
    /// Name of the parameter that holds the refractory time in ms, if the model has one.
    pub refractory: Option<&'static str>,
}

impl Model {
    /// Place of a parameter.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|p| p.name == name)
    }
}

/// The equations of a model with `S` state variables and `P` parameters. All functions are of one neuron and branch-free,
/// so that the processor takes several at a time.
pub(crate) trait Dynamics<const S: usize, const P: usize> {
    /// Its entry in the list.
    const MODEL: Model;

    /// True if a spike resets the state: the neuron then rests from its spike to the end of the step.
    const RESETS: bool;

    /// Derivatives per ms of the state `y` under a current in pA.
    fn slope(p: &[f32; P], y: &[f32; S], current: f32) -> [f32; S];

    /// True if the potential's way from `before` to `now` in a sub-step is a spike.
    fn fires(p: &[f32; P], before: f32, now: f32) -> bool;

    /// The state after a spike.
    fn reset(p: &[f32; P], y: [f32; S]) -> [f32; S];

    /// The state at a start with the potential `v`.
    fn start(p: &[f32; P], v: f32) -> [f32; S];
}

/// The list of models: a new one is a file, and a line here.
macro_rules! models {
    ($d:tt $($kind:ident: $model:ident, $states:literal, $parameters:literal;)*) => {
        /// The models there are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(crate) enum Kind {
            $($kind),*
        }

        /// All models.
        pub(crate) const MODELS: &[(Kind, Model)] = &[
            $((Kind::$kind, <$model as Dynamics<$states, $parameters>>::MODEL)),*
        ];

        /// Calls a function that is generic over a model's type, its states and its parameters.
        macro_rules! with_model {
            ($of:expr, $function:ident ( $d($d argument:expr),* )) => {
                match $of {
                    $($crate::dynamics::Kind::$kind => {
                        $function::<$crate::dynamics::$model, $states, $parameters>($d($d argument),*)
                    })*
                }
            };
        }
        pub(crate) use with_model;
    };
}

models! { $
    Lif: LeakyIntegrator, 1, 7;
    Izhikevich: Izhikevich, 2, 12;
    Adex: Adex, 2, 12;
    HodgkinHuxley: HodgkinHuxley, 4, 9;
    Quadratic: Quadratic, 1, 8;
    Theta: Theta, 1, 3;
}

/// All models that integrate equations, as they are listed.
pub fn models() -> impl Iterator<Item = Model> {
    MODELS.iter().map(|(_, model)| *model)
}

/// The model of that name.
pub(crate) fn by_name(name: &str) -> Option<(Kind, Model)> {
    MODELS.iter().find(|(_, m)| m.name == name).copied()
}

/// The state at a start with the potential `v` and these parameters.
pub(crate) fn start(kind: Kind, parameters: &[f32], v: f32) -> Vec<f32> {
    with_model!(kind, start_of(parameters, v))
}

fn start_of<M: Dynamics<S, P>, const S: usize, const P: usize>(
    parameters: &[f32],
    v: f32,
) -> Vec<f32> {
    let mut p = [0f32; P];
    p.copy_from_slice(parameters);
    M::start(&p, v).to_vec()
}

/// Ranges of parameters that several models share.
mod range {
    /// Potentials in mV.
    pub(super) const POTENTIAL: (f64, f64) = (-500.0, 500.0);
    /// Time constants in ms.
    pub(super) const TIME: (f64, f64) = (0.1, 1e5);
    /// Capacitances in pF.
    pub(super) const CAPACITANCE: (f64, f64) = (0.5, 1e6);
    /// Conductances in nS.
    pub(super) const CONDUCTANCE: (f64, f64) = (0.0, 1e6);
    /// Refractory times in ms.
    pub(super) const SILENCE: (f64, f64) = (0.0, 1e4);
    /// Currents in pA.
    pub(super) const CURRENT: (f64, f64) = (-1e7, 1e7);
}
