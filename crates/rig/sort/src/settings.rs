//! Settings of a front end: filter, reference, threshold and artefacts.

use betz_base::{Error, Result};

/// The reference that is subtracted from every channel after the band-pass filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reference {
    /// Nothing.
    #[default]
    None,
    /// The mean of all channels.
    Average,
    /// The median of all channels, which a spike on some of them does not move.
    Median,
    /// A ridge regression of the channel on those further off (LRR).
    Regression,
}

/// Settings of the front end, which finds crossings in voltage. Lengths are in milliseconds and micrometres.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Samples per channel and second.
    pub rate_hz: f64,
    /// Microvolts a bit.
    pub microvolts: f64,
    /// Band of the Butterworth filter.
    pub low_hz: f64,
    /// Its upper edge.
    pub high_hz: f64,
    /// Its order, 1 to 4; each edge falls off with this order.
    pub order: usize,
    /// The reference that is subtracted.
    pub reference: Reference,
    /// Crossings are looked for in what the channels around each see together, weighted by exp(−d²/2 `focus_um`²); 0: in
    /// each channel alone.
    pub focus_um: f64,
    /// A crossing is a minimum below −`threshold` standard deviations of the noise.
    pub threshold: f64,
    /// Of crossings within this time and within [`Settings::exclusive_um`] the largest is kept.
    pub exclusive_ms: f64,
    /// See [`Settings::exclusive_ms`].
    pub exclusive_um: f64,
    /// More than this after filter and reference is no spike.
    pub artefact_microvolts: f64,
    /// Time that is blanked after an artefact; half as much before it.
    pub blank_ms: f64,
    /// Time constant of the threshold's tracking of the noise; 0: the noise of training stays.
    pub tracking_seconds: f64,
}

impl Settings {
    /// The usual, at a rate and microvolts a bit: 300–6000 Hz of order 3, −4.5 σ over 20 µm, one crossing in 0.5 ms and 75 µm,
    /// artefacts above 500 µV blank 1 ms, noise tracked over 30 s.
    pub fn new(rate_hz: f64, microvolts: f64) -> Self {
        Self {
            rate_hz,
            microvolts,
            low_hz: 300.0,
            high_hz: 6000.0,
            order: 3,
            reference: Reference::None,
            focus_um: 20.0,
            threshold: 4.5,
            exclusive_ms: 0.5,
            exclusive_um: 75.0,
            artefact_microvolts: 500.0,
            blank_ms: 1.0,
            tracking_seconds: 30.0,
        }
    }

    /// Samples in so many milliseconds.
    pub(crate) fn samples(&self, ms: f64) -> usize {
        (ms * 1e-3 * self.rate_hz).round().max(1.0) as usize
    }

    /// Refuses what makes no sense, with the field's name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument).
    pub fn check(&self) -> Result<()> {
        let refuse = |name: &str, expected: &str, got: f64| {
            Err(Error::argument(format!(
                "{name}: expected {expected}, got {got}"
            )))
        };
        if !(self.rate_hz.is_finite() && (1e3..=1e6).contains(&self.rate_hz)) {
            return refuse("rate", "1000 to 1000000 samples per second", self.rate_hz);
        }
        if !(self.microvolts.is_finite() && self.microvolts > 0.0 && self.microvolts < 1e6) {
            return refuse("gain", "microvolts a bit, above 0", self.microvolts);
        }
        if !(self.low_hz > 0.0 && self.low_hz < self.high_hz) {
            return refuse(
                "low edge",
                "above 0 and below the high edge, in Hz",
                self.low_hz,
            );
        }
        if self.high_hz.is_nan() || self.high_hz >= self.rate_hz / 2.0 {
            return refuse("high edge", "less than half the rate, in Hz", self.high_hz);
        }
        if !(1..=4).contains(&self.order) {
            return refuse("filter order", "1 to 4", self.order as f64);
        }
        let positive = [
            ("threshold", self.threshold, 100.0),
            ("exclusive time", self.exclusive_ms, 10.0),
            ("artefact", self.artefact_microvolts, 1e9),
            ("blanked time", self.blank_ms, 100.0),
        ];
        for (name, value, most) in positive {
            if !(value > 0.0 && value <= most) {
                return refuse(name, &format!("above 0 and at most {most}"), value);
            }
        }
        if !(0.0..=1000.0).contains(&self.focus_um) {
            return refuse("focus", "0 to 1000 micrometres", self.focus_um);
        }
        if !(self.exclusive_um >= 0.0 && self.exclusive_um.is_finite()) {
            return refuse(
                "exclusive distance",
                "micrometres, 0 or more",
                self.exclusive_um,
            );
        }
        if !(self.tracking_seconds >= 0.0 && self.tracking_seconds.is_finite()) {
            return refuse("tracking", "seconds, 0 or more", self.tracking_seconds);
        }
        Ok(())
    }
}

/// Samples before and after a minimum by which a spike is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl Window {
    /// 0.5 ms before and 0.83 ms after.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self {
            before: settings.samples(0.5),
            after: settings.samples(25.0 / 30.0),
        }
    }

    pub(crate) fn len(self) -> usize {
        self.before + self.after
    }
}

/// Rows beyond a window that interpolation between samples looks at, on each side.
pub(crate) const MARGIN: usize = 2;

/// Samples around its minimum that a template has: also what the filter's ringing and a slow return have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl Span {
    /// 1 ms before and 2.5 ms after.
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        Self {
            before: settings.samples(1.0),
            after: settings.samples(2.5),
        }
    }

    pub(crate) fn len(self) -> usize {
        self.before + self.after
    }
}

/// Milliseconds by which a larger spike may come after a smaller one and still be taken first.
pub(crate) const AHEAD_MS: f64 = 2.5;

/// Rows that the front end has to remember for templates.
pub(crate) fn rows_of_templates(settings: &Settings) -> usize {
    let span = Span::from_settings(settings);
    span.len() + span.before + settings.samples(AHEAD_MS)
}
