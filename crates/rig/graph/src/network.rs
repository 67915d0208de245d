//! A network as tract's plan, and a recording decoded by it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use betz_base::{Error, ErrorKind, Progress, Result, progress};
use betz_recording::Dataset;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::unimpl::UnimplementedOp;
use tract_onnx::tract_hir::infer::Factoid;
use tract_onnx::tract_hir::internal::DimLike;

use crate::layout::{Newest, Window, show};

/// Steps between two reports of progress.
const REPORTED_STEPS: usize = 256;

/// Properties of a network that its file may leave open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Steps that the network sees at once. `None` takes the file's number.
    pub window: Option<usize>,
}

/// A value that an output hands on to the next step's input.
#[derive(Debug)]
struct State {
    /// Index among the outputs.
    output: usize,
    shape: Vec<usize>,
    number: DatumType,
}

/// A network that was read from an ONNX file.
///
/// Its first input is the counts of the newest steps, one per channel, and its first output that is no state is the
/// estimates of the last of them. Every other input is a state, which is 0 when a segment begins.
#[derive(Debug)]
pub struct Network {
    plan: Arc<TypedRunnableModel>,
    window: Window,
    number: DatumType,
    states: Vec<State>,
    /// Index of the estimates among the outputs.
    estimates: usize,
    newest: Newest,
    unused: Vec<String>,
    step_seconds: Option<f64>,
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidModel, message))
}

/// An error of tract with its causes.
fn refused(error: TractError) -> Error {
    Error::new(ErrorKind::InvalidModel, format!("tract: {error:#}"))
}

impl Network {
    /// Reads the ONNX file `path` for recordings of `channels`, optimises it and runs it once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for a damaged file, for operators that tract does not know, by their names, and for
    /// an input that is neither the counts nor a state. [`ErrorKind::Mismatch`] for shapes that do not fit `channels`,
    /// the window, or each other. [`ErrorKind::InvalidArgument`] if the file leaves the window open and `options` do, too.
    pub fn read(path: &Path, channels: usize, options: Options) -> Result<Self> {
        // A damaged graph can make tract panic.
        let read = catch_unwind(AssertUnwindSafe(|| Self::open(path, channels, options)));
        read.unwrap_or_else(|_| {
            refuse("expected an ONNX graph that tract reads; it panicked: export it again".into())
        })
        .map_err(|e| e.at(path.display()))
    }

    fn open(path: &Path, channels: usize, options: Options) -> Result<Self> {
        // Lengths inside the file may be those of a free axis, which is fixed below.
        let reader = tract_onnx::onnx().with_ignore_value_info(true);
        let mut model = reader.model_for_path(path).map_err(refused)?;
        check_operators(&model)?;
        let step_seconds = step_seconds(&model);
        let names = Names::of(&model);
        let Some(counts) = model.inputs.first().copied() else {
            return refuse("expected a graph with an input of counts, found none".into());
        };
        let (number, shape) = declared(&model, counts)?;
        let partners = names.partners()?;
        let window = Window::fit(&shape, channels, options.window)?;
        if !partners.is_empty() && window.steps != 1 {
            return refuse(format!(
                "input {:?}: expected one step at a time of a network with states, got a window of {} steps",
                names.inputs[0], window.steps
            ));
        }
        let fact = InferenceFact::dt_shape(number, window.shape.as_slice());
        model.set_input_fact(0, fact).map_err(refused)?;
        let mut states = Vec::new();
        for (i, &output) in partners.iter().enumerate() {
            let (number, shape) = declared(&model, model.inputs[i + 1])?;
            let shape: Vec<usize> = shape.iter().map(|axis| axis.unwrap_or(1)).collect();
            let fact = InferenceFact::dt_shape(number, shape.as_slice());
            model.set_input_fact(i + 1, fact).map_err(refused)?;
            states.push(State {
                output,
                shape,
                number,
            });
        }
        let Some(estimates) = (0..names.outputs.len()).find(|o| !partners.contains(o)) else {
            return refuse("expected an output of estimates beside the states, found none".into());
        };
        let unused = (names.outputs.iter().enumerate())
            .filter(|(o, _)| *o != estimates && !partners.contains(o))
            .map(|(_, name)| name.clone())
            .collect();
        let plan = (model.into_optimized())
            .and_then(|model| model.into_runnable())
            .map_err(refused)?;
        let mut network = Self {
            plan,
            newest: Newest {
                start: 0,
                stride: 1,
                count: 0,
            },
            window,
            number,
            states,
            estimates,
            unused,
            step_seconds,
        };
        network.try_once(&names)?;
        Ok(network)
    }

    /// Runs the network on zeros: the shapes of its outputs.
    fn try_once(&mut self, names: &Names) -> Result<()> {
        let counts = vec![0.0; self.window.steps * self.window.channels];
        let outputs = self.run(&counts, &self.rest()?)?;
        for (i, state) in self.states.iter().enumerate() {
            let next = &outputs[state.output];
            if next.shape() != state.shape || next.datum_type() != state.number {
                return Err(Error::mismatch(format!(
                    "state {:?}: expected its output {:?} to be {:?} of {:?}, got {:?} of {:?}; export states of a fixed length",
                    names.inputs[i + 1],
                    names.outputs[state.output],
                    state.shape,
                    state.number,
                    next.shape(),
                    next.datum_type()
                )));
            }
        }
        self.newest = Newest::fit(outputs[self.estimates].shape(), &self.window)?;
        Ok(())
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.window.channels
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.newest.count
    }

    /// Number of steps that the network sees at once.
    pub fn window(&self) -> usize {
        self.window.steps
    }

    /// Number of values that are carried from step to step.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Names of outputs that are neither estimates nor states: they are not decoded.
    pub fn unused_outputs(&self) -> &[String] {
        &self.unused
    }

    /// Length of a step in seconds, where the file's metadata says it as `step_seconds`.
    pub fn step_seconds(&self) -> Option<f64> {
        self.step_seconds
    }

    /// Decodes `data`: (steps, outputs) row-major, NaN outside segments. A segment begins with states of 0, and with
    /// zeros for the steps before it. Allocates in every step.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for another number of channels; [`ErrorKind::NonFinite`] for an estimate that is not
    /// finite; [`ErrorKind::InvalidModel`] if tract fails; [`ErrorKind::Interrupted`].
    pub fn decode(&self, data: &Dataset, progress: &dyn Progress) -> Result<Vec<f32>> {
        let (channels, width) = (self.channels(), self.outputs());
        if data.channels() != channels {
            return Err(Error::mismatch(format!(
                "network: expected {channels} channels, got {}",
                data.channels()
            )));
        }
        let mut estimates = vec![f32::NAN; data.steps * width];
        let mut window = vec![0.0; self.window.steps * channels];
        let (mut done, total) = (0, data.steps_in_segments());
        for segment in &data.segments {
            window.fill(0.0);
            let mut states = self.rest()?;
            for step in segment.start..segment.stop {
                if done % REPORTED_STEPS == 0 {
                    progress::check(progress, "decoding")?;
                    progress.update("decoding", done as u64, total as u64);
                }
                self.push(&mut window, data, step);
                let outputs = self.run(&window, &states)?;
                let row = &mut estimates[step as usize * width..][..width];
                self.take(&outputs[self.estimates], row)?;
                if row.iter().any(|value| !value.is_finite()) {
                    return Err(Error::new(
                        ErrorKind::NonFinite,
                        format!("step {step}: expected finite estimates, got {row:?}"),
                    ));
                }
                let next = self
                    .states
                    .iter()
                    .map(|state| outputs[state.output].clone());
                states = next.collect();
                done += 1;
            }
        }
        progress.update("decoding", total as u64, total as u64);
        Ok(estimates)
    }

    /// The states at rest.
    fn rest(&self) -> Result<Vec<TValue>> {
        let zero = |state: &State| Tensor::zero_dt(state.number, &state.shape);
        let states: TractResult<Vec<Tensor>> = self.states.iter().map(zero).collect();
        Ok((states.map_err(refused)?.into_iter())
            .map(IntoTValue::into_tvalue)
            .collect())
    }

    /// Moves the counts of `window` by one step, and adds those of `step`.
    fn push(&self, window: &mut [f32], data: &Dataset, step: i64) {
        let Window {
            steps, channels, ..
        } = self.window;
        let place = |channel: usize| match self.window.channels_last {
            true => (steps - 1) * channels + channel,
            false => channel * steps + steps - 1,
        };
        // In (channels, steps) this moves each channel's first count into the row before, where it is overwritten.
        let by = if self.window.channels_last {
            channels
        } else {
            1
        };
        window.copy_within(by.., 0);
        (0..channels).for_each(|channel| window[place(channel)] = 0.0);
        for i in data.spikes.range(step, step + 1) {
            window[place(data.spikes.channels[i] as usize)] += data.spikes.weight(i);
        }
    }

    fn run(&self, counts: &[f32], states: &[TValue]) -> Result<TVec<TValue>> {
        let run = || {
            let counts = Tensor::from_shape(&self.window.shape, counts)?;
            let counts = counts.cast_to_dt(self.number)?.into_owned();
            let mut inputs: TVec<TValue> = tvec!(counts.into_tvalue());
            inputs.extend(states.iter().cloned());
            self.plan.run(inputs)
        };
        run().map_err(refused)
    }

    /// The newest estimates of `output`.
    fn take(&self, output: &Tensor, to: &mut [f32]) -> Result<()> {
        let numbers = output.cast_to::<f32>().map_err(refused)?;
        let numbers = numbers.try_as_plain_ram().and_then(|n| n.as_slice::<f32>());
        let newest = (numbers.map_err(refused)?.iter())
            .skip(self.newest.start)
            .step_by(self.newest.stride);
        to.iter_mut().zip(newest).for_each(|(value, &n)| *value = n);
        Ok(())
    }
}

/// Names of inputs and outputs.
struct Names {
    inputs: Vec<String>,
    outputs: Vec<String>,
}

impl Names {
    fn of(model: &InferenceModel) -> Self {
        let name = |outlet: &OutletId| match model.outlet_label(*outlet) {
            Some(label) => label.to_owned(),
            None => model.node(outlet.node).name.clone(),
        };
        Self {
            inputs: model.inputs.iter().map(name).collect(),
            outputs: model.outputs.iter().map(name).collect(),
        }
    }

    /// For each input but the first the output that is its next value: by name, else in order, if as many outputs
    /// follow the first.
    fn partners(&self) -> Result<Vec<usize>> {
        let states = self.inputs.get(1..).unwrap_or_default();
        let named: Vec<Option<usize>> = (states.iter())
            .map(|input| {
                self.outputs
                    .iter()
                    .position(|output| follows(input, output))
            })
            .collect();
        if let Some(all) = named.iter().copied().collect::<Option<Vec<usize>>>() {
            return Ok(all);
        }
        if named.iter().all(Option::is_none) && self.outputs.len() == self.inputs.len() {
            return Ok((1..self.outputs.len()).collect());
        }
        let open = states
            .iter()
            .zip(&named)
            .find(|(_, output)| output.is_none());
        refuse(format!(
            "input {:?}: expected the counts or a state, whose next value is an output such as {:?}; got the outputs {:?}",
            open.map_or("", |(input, _)| input),
            open.map_or_else(String::new, |(input, _)| format!("{input}_out")),
            self.outputs
        ))
    }
}

/// True if `output` has the name of the next value of the state `input`: `h_out` or `new_h` of `h`, `h_out` of `h_in`,
/// `present.0` of `past.0`, `hn` of `h0`.
fn follows(input: &str, output: &str) -> bool {
    let stem = input.strip_suffix("_in").unwrap_or(input);
    let last = input.strip_suffix('0').map(|stem| format!("{stem}n"));
    output == format!("{stem}_out")
        || output == format!("new_{stem}")
        || last.is_some_and(|last| output == last)
        || (input.contains("past") && output == input.replace("past", "present"))
}

/// The type of numbers and the axes of an input as its file declares them.
fn declared(model: &InferenceModel, outlet: OutletId) -> Result<(DatumType, Vec<Option<usize>>)> {
    let fact = model.outlet_fact(outlet).map_err(refused)?;
    let name = &model.node(outlet.node).name;
    let Some(number) = fact.datum_type.concretize().filter(|n| !n.is_quantized()) else {
        return refuse(format!(
            "input {name:?}: expected a type of numbers, found none"
        ));
    };
    if fact.shape.is_open() {
        return refuse(format!("input {name:?}: expected a shape, found none"));
    }
    let axes: Vec<Option<usize>> = (fact.shape.dims())
        .map(|axis| axis.concretize().and_then(|length| length.to_usize().ok()))
        .collect();
    if axes.contains(&Some(0)) {
        return refuse(format!(
            "input {name:?}: expected no empty axis, got {}",
            show(&axes)
        ));
    }
    Ok((number, axes))
}

/// Refuses operators that tract does not know.
fn check_operators(model: &InferenceModel) -> Result<()> {
    let unknown: Vec<String> = (model.nodes().iter())
        .filter_map(|node| Some((node, node.op_as::<UnimplementedOp>()?)))
        .map(|(node, operator)| format!("{} ({:?})", operator.name(), node.name))
        .collect();
    match unknown.is_empty() {
        true => Ok(()),
        false => refuse(format!(
            "expected operators that tract knows, got {}",
            unknown.join(", ")
        )),
    }
}

/// The length of a step in the file's metadata, if it is a positive number.
fn step_seconds(model: &InferenceModel) -> Option<f64> {
    let text = model.properties.get("onnx.metadata_props.step_seconds")?;
    let text = text.try_as_plain_ram().ok()?.as_slice::<String>().ok()?;
    let seconds: f64 = text.first()?.parse().ok()?;
    (seconds.is_finite() && seconds > 0.0).then_some(seconds)
}
