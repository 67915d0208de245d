//! The network of samples as they come: every measure, every threshold, on any device, by the plan that computes a
//! recorded signal.

use betz_base::{Error, Progress, Result, memory};
use betz_device::Device;

use crate::network::{Meta, WindowEdges};
use crate::plan::{Plan, spikes_only};
use crate::signal::{Signal, SignalData};
use crate::spec::{Measure, NetworkSpec};
use crate::window::Window;

/// Rows that are still needed, of one type.
#[derive(Debug)]
enum History {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    U8(Vec<u8>),
}

macro_rules! each_kind {
    ($history:expr, $values:ident => $work:expr) => {
        match $history {
            History::F32($values) => $work,
            History::F64($values) => $work,
            History::I16($values) => $work,
            History::U16($values) => $work,
            History::U8($values) => $work,
        }
    };
}

impl History {
    fn of(first: SignalData<'_>) -> Self {
        match first {
            SignalData::F32(v) => Self::F32(v.to_vec()),
            SignalData::F64(v) => Self::F64(v.to_vec()),
            SignalData::I16(v) => Self::I16(v.to_vec()),
            SignalData::U16(v) => Self::U16(v.to_vec()),
            SignalData::U8(v) => Self::U8(v.to_vec()),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::I16(_) => "i16",
            Self::U16(_) => "u16",
            Self::U8(_) => "u8",
        }
    }

    /// False if `rows` are of another type.
    fn append(&mut self, rows: SignalData<'_>) -> bool {
        match (self, rows) {
            (Self::F32(all), SignalData::F32(v)) => all.extend_from_slice(v),
            (Self::F64(all), SignalData::F64(v)) => all.extend_from_slice(v),
            (Self::I16(all), SignalData::I16(v)) => all.extend_from_slice(v),
            (Self::U16(all), SignalData::U16(v)) => all.extend_from_slice(v),
            (Self::U8(all), SignalData::U8(v)) => all.extend_from_slice(v),
            _ => return false,
        }
        true
    }

    fn clear(&mut self) {
        each_kind!(self, values => values.clear());
    }

    fn drop_first(&mut self, values: usize) {
        each_kind!(self, all => { all.drain(..values); });
    }

    fn part(&self, values: std::ops::Range<usize>) -> SignalData<'_> {
        match self {
            Self::F32(v) => (&v[values]).into(),
            Self::F64(v) => (&v[values]).into(),
            Self::I16(v) => (&v[values]).into(),
            Self::U16(v) => (&v[values]).into(),
            Self::U8(v) => (&v[values]).into(),
        }
    }
}

/// Counts since a network of samples began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Rows that were given.
    pub rows: u64,
    /// Rows that are known to be missing between them.
    pub lost: u64,
    /// Gaps between rows, none before the first row.
    pub gaps: u64,
    /// Windows that were computed.
    pub windows: u64,
    /// Windows that were complete, and not computed: [`SampleNetwork::skip`], a gap or a change came first.
    pub skipped: u64,
    /// Edges of all windows.
    pub edges: u64,
}

/// A network that grows with its signal.
///
/// Rows come in pieces of any size. [`SampleNetwork::update`] computes all windows that are complete, with the edges
/// that [`Plan`] finds in the recorded rows. Values of rank measures, time warping and coherence are equal; those of the
/// others agree within rounding. Windows begin anew after a gap, as with a new segment.
///
/// ```
/// use betz_network::live::SampleNetwork;
/// use betz_network::{NetworkSpec, Threshold, Window};
///
/// // Three nodes; the third is the first one upside down.
/// let row = |t: u32| {
///     let wave = (f64::from(t) / 7.0).sin() as f32;
///     [wave, (t * t % 101) as f32, -wave]
/// };
/// let spec = NetworkSpec::pearson(Window { length: 100, step: 50 });
/// let mut network = SampleNetwork::new(spec.threshold(Threshold::Absolute(0.9)), 3)?;
/// let mut found = Vec::new();
/// for t in 0..210 {
///     network.push(&row(t)[..])?;
///     network.update(&(), |window| {
///         found.push((window.start, window.i[0], window.j[0]));
///         Ok(())
///     })?;
/// }
/// assert_eq!(found, [(0, 0, 2), (50, 0, 2), (100, 0, 2)]);
/// # Ok::<(), betz_network::Error>(())
/// ```
#[derive(Debug)]
pub struct SampleNetwork {
    spec: NetworkSpec,
    nodes: usize,
    axes: usize,
    sample_seconds: Option<f64>,
    device: Device,
    /// Place of the newest update.
    ran: String,
    history: Option<History>,
    /// Number of the first row of `history`. Lost rows have numbers, too.
    first: u64,
    /// Number of the row that comes next.
    total: u64,
    /// First row that the next window needs.
    next: u64,
    /// Windows before `next` whose distances may have lasted: since the last gap, or change of the window.
    on_grid: u64,
    /// End of the last window, or beginning of the segment.
    covered: u64,
    counts: SampleCounts,
    /// Counts of the computation by this specification.
    rechecked: u64,
    rebuilt: u64,
    extreme: u64,
    /// Samples of finished segments that lie in no window.
    trailing: u64,
}

impl SampleNetwork {
    /// A network of `nodes`, each with one value per row, on the CPU.
    ///
    /// # Errors
    /// As for [`Plan::new`]; `OutOfMemory` if there is no memory for a window.
    pub fn new(spec: NetworkSpec, nodes: usize) -> Result<Self> {
        Self::with_axes(spec, nodes, 1)
    }

    /// A network of `nodes` that move: rows hold the 2 or 3 coordinates of each
    /// ([`Signal::places`](crate::Signal::places)).
    ///
    /// # Errors
    /// The errors of [`SampleNetwork::new`].
    pub fn places(spec: NetworkSpec, nodes: usize, axes: usize) -> Result<Self> {
        Self::with_axes(spec, nodes, axes)
    }

    fn with_axes(spec: NetworkSpec, nodes: usize, axes: usize) -> Result<Self> {
        let network = Self {
            spec,
            nodes,
            axes,
            sample_seconds: None,
            device: Device::cpu(),
            ran: String::new(),
            history: None,
            first: 0,
            total: 0,
            next: 0,
            on_grid: 0,
            covered: 0,
            counts: SampleCounts::default(),
            rechecked: 0,
            rebuilt: 0,
            extreme: 0,
            trailing: 0,
        };
        let ran = network.check(&spec)?;
        Ok(Self { ran, ..network })
    }

    /// The same on `device`, as [`Plan::on`] decides for every update.
    ///
    /// # Errors
    /// The errors of [`Plan::on`].
    pub fn on(mut self, device: &Device) -> Result<Self> {
        self.device = device.clone();
        self.ran = self.check(&self.spec)?;
        Ok(self)
    }

    /// The same with the time between two rows, in seconds.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is positive and finite.
    pub fn with_sample_seconds(mut self, seconds: f64) -> Result<Self> {
        Signal::new(&[0_u8][..], 1)?.with_sample_seconds(seconds)?;
        self.sample_seconds = Some(seconds);
        Ok(self)
    }

    /// Refuses what [`SampleNetwork::set_spec`] refuses, and changes nothing.
    ///
    /// # Errors
    /// The errors of [`SampleNetwork::new`].
    pub fn check_spec(&self, spec: &NetworkSpec) -> Result<()> {
        self.check(spec).map(|_| ())
    }

    /// Refuses what no window could be computed with; returns the place of the computation.
    fn check(&self, spec: &NetworkSpec) -> Result<String> {
        spec.check()?;
        if let Measure::SpikeTiling { .. } = spec.measure {
            return Err(spikes_only());
        }
        let width = self.nodes.saturating_mul(self.axes);
        // One window of zeros: what is refused for it is refused for every other.
        let values = needed(spec).saturating_mul(width);
        memory::plan("a window", values as u128)?;
        let zeros = memory::filled("a window", 0_u8, values)?;
        let signal = self.signal_of((&zeros).into())?;
        Ok(Plan::new(spec, &signal)?.on(&self.device)?.device())
    }

    fn signal_of<'a>(&self, data: SignalData<'a>) -> Result<Signal<'a>> {
        let signal = match self.axes {
            1 => Signal::new(data, self.nodes)?,
            axes => Signal::places(data, self.nodes, axes)?,
        };
        match self.sample_seconds {
            Some(seconds) => signal.with_sample_seconds(seconds),
            None => Ok(signal),
        }
    }

    /// Takes rows, one behind the other, of the type of the first ones.
    ///
    /// # Errors
    /// `Mismatch` for a part of a row or another type; nothing is taken then.
    pub fn push<'a>(&mut self, rows: impl Into<SignalData<'a>>) -> Result<()> {
        let rows = rows.into();
        let rows_given = self.signal_of(rows)?.samples() as u64;
        match &mut self.history {
            None => self.history = Some(History::of(rows)),
            Some(history) => {
                if !history.append(rows) {
                    return Err(Error::mismatch(format!(
                        "rows: expected samples of {}, as in the first rows, got another type",
                        history.type_name()
                    )));
                }
            }
        }
        self.total += rows_given;
        self.counts.rows += rows_given;
        self.drop_old();
        Ok(())
    }

    /// `lost` rows are missing, or an unknown number (0): windows begin anew. Windows that are complete are
    /// [skipped](SampleCounts::skipped) unless [`SampleNetwork::update`] came before.
    pub fn gap(&mut self, lost: u64) {
        if self.counts.rows == 0 {
            return;
        }
        self.skip_all();
        self.trailing += self.uncovered();
        self.counts.gaps += 1;
        self.counts.lost += lost;
        self.total += lost;
        (self.next, self.on_grid, self.covered) = (self.total, 0, self.total);
        if let Some(history) = &mut self.history {
            history.clear();
        }
        self.first = self.total;
    }

    /// Rows at the end of the segment that no window covers.
    fn uncovered(&self) -> u64 {
        self.total.saturating_sub(self.covered)
    }

    /// Computes by another specification from now on. With the same window the next window is the one that would have
    /// come. Otherwise windows begin with the newest one that the rows still held fill, or that they will fill.
    ///
    /// # Errors
    /// As for [`SampleNetwork::new`]; everything then stays as it was.
    pub fn set_spec(&mut self, spec: NetworkSpec) -> Result<()> {
        let ran = self.check(&spec)?;
        if spec.window != self.spec.window || needed(&spec) != needed(&self.spec) {
            self.skip_all();
            let newest = self.total.saturating_sub(needed(&spec) as u64);
            (self.next, self.on_grid) = (newest.max(self.first), 0);
            self.trailing += self.next.saturating_sub(self.covered);
            self.covered = self.covered.max(self.next);
        } else if held(&spec) > held(&self.spec) {
            // Older windows may be gone.
            self.on_grid = 0;
        }
        (self.spec, self.ran) = (spec, ran);
        (self.rechecked, self.rebuilt, self.extreme) = (0, 0, 0);
        Ok(())
    }

    /// Number of windows that are complete and not computed.
    pub fn ready(&self) -> u64 {
        let there = self.total.saturating_sub(self.next);
        match there.checked_sub(needed(&self.spec) as u64) {
            Some(more) => more / self.spec.window.step as u64 + 1,
            None => 0,
        }
    }

    /// Leaves out all complete windows but the newest, to catch up; returns their number.
    pub fn skip(&mut self) -> u64 {
        let skipped = self.ready().saturating_sub(1);
        self.pass(skipped);
        self.counts.skipped += skipped;
        skipped
    }

    fn skip_all(&mut self) {
        let skipped = self.ready();
        self.pass(skipped);
        self.counts.skipped += skipped;
    }

    /// Goes on by so many windows.
    fn pass(&mut self, windows: u64) {
        if windows == 0 {
            return;
        }
        let step = self.spec.window.step as u64;
        let last = self.next + (windows - 1) * step;
        self.covered = (self.covered).max(last + needed(&self.spec) as u64);
        self.next = last.saturating_add(step);
        self.on_grid += windows;
    }

    /// Computes all windows that are complete, and hands each to `take`, in order: `index` counts computed windows, and
    /// `start` rows since the beginning, lost ones included. Returns their number.
    ///
    /// # Errors
    /// As for [`Plan::stream`], whose limit of edges is that of the windows of one update. Windows that `take` has
    /// accepted before an error are not computed again.
    pub fn update(
        &mut self,
        progress: &dyn Progress,
        mut take: impl FnMut(&WindowEdges<'_>) -> Result<()>,
    ) -> Result<u64> {
        let ready = self.ready();
        let (Some(history), true) = (&self.history, ready > 0) else {
            return Ok(0);
        };
        let step = self.spec.window.step as u64;
        // Distances that have to last look at the windows before.
        let back = held(&self.spec).min(self.on_grid);
        let first = self.next - back * step;
        let rows = needed(&self.spec) as u64 + (ready + back - 1).saturating_mul(step);
        let width = (self.nodes * self.axes) as u64;
        let (from, to) = (first - self.first, first - self.first + rows);
        let data = history.part((from * width) as usize..(to * width) as usize);
        let signal = self.signal_of(data)?;
        let plan = Plan::new(&self.spec, &signal)?.on(&self.device)?;
        let (begun, mut taken, mut edges) = (self.counts.windows, 0, 0);
        let streamed = plan.stream(&signal, progress, |window| {
            if (window.index as u64) < back {
                return Ok(());
            }
            take(&WindowEdges {
                index: (begun + taken) as usize,
                start: first + window.start,
                ..*window
            })?;
            taken += 1;
            edges += window.len() as u64;
            Ok(())
        });
        self.ran = plan.device();
        self.pass(taken);
        self.counts.windows += taken;
        self.counts.edges += edges;
        if let Ok(meta) = &streamed {
            self.rechecked += meta.rechecked;
            self.rebuilt += meta.rebuilt;
            self.extreme += meta.extreme;
        }
        self.drop_old();
        streamed.map(|_| taken)
    }

    /// Drops rows that no window needs any more, once they are most of those held.
    fn drop_old(&mut self) {
        let back = held(&self.spec).min(self.on_grid);
        let step = self.spec.window.step as u64;
        // The newest window stays, for a change that lets it be computed at once.
        let newest = self.total.saturating_sub(needed(&self.spec) as u64);
        let needed_from = (self.next - back * step).min(newest).max(self.first);
        let old = needed_from - self.first;
        if old > self.total - needed_from
            && let Some(history) = &mut self.history
        {
            history.drop_first(old as usize * self.nodes * self.axes);
            self.first = needed_from;
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> SampleCounts {
        self.counts
    }

    /// The specification.
    pub fn spec(&self) -> &NetworkSpec {
        &self.spec
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Number of the row that comes next: all rows so far, with those that are known to be lost.
    pub fn rows(&self) -> u64 {
        self.total
    }

    /// Length and step of the windows.
    pub fn window(&self) -> Window {
        self.spec.window
    }

    /// The origin of a network of all windows so far, and counts of their computation.
    pub fn meta(&self) -> Meta {
        let rows = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Meta {
            spec: self.spec,
            nodes: self.nodes,
            samples: rows(self.total),
            sample_seconds: self.sample_seconds,
            trailing: rows(self.trailing + self.uncovered()),
            rechecked: self.rechecked,
            rebuilt: self.rebuilt,
            extreme: self.extreme,
            device: self.ran.clone(),
        }
    }
}

/// Rows that one window needs.
fn needed(spec: &NetworkSpec) -> usize {
    match spec.measure {
        Measure::Lagged { lags } => spec.window.length.saturating_add(2 * lags),
        _ => spec.window.length,
    }
}

/// Windows before the next one that decide which of its edges are kept.
fn held(spec: &NetworkSpec) -> u64 {
    match spec.measure {
        Measure::Euclidean { hold } => hold.saturating_sub(1) as u64,
        _ => 0,
    }
}
