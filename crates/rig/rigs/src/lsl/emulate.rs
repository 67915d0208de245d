//! A stream of Lab Streaming Layer, which liblsl itself sends.

use std::sync::Arc;

use betz_base::{Error, ErrorKind, Result};

use super::library::{Format, Lsl, Outlet, OutletPlan};
use crate::rig::emulate::{Emulator, whole_rows};

/// Time of the first row, in seconds of the sender's clock.
const BEGIN_SECONDS: f64 = 1000.0;
/// Time by which a restart sets the clock on.
const RESTART_SECONDS: f64 = 3600.0;

/// Sends voltage as [`LslRig`](crate::rig::LslRig) receives it. It needs liblsl.
pub struct LslOutlet {
    lsl: Arc<Lsl>,
    name: String,
    channels: usize,
    /// Rate of the rows, and the one that the stream states.
    rate: f64,
    stated_rate: f64,
    format: Format,
    outlet: Option<Outlet>,
    next: u64,
    /// Time of row 0.
    begin_seconds: f64,
}

impl LslOutlet {
    /// A stream of int16 called `name`.
    ///
    /// # Errors
    /// `Io` where there is no liblsl or it refuses the stream; `InvalidArgument` for no channels, a rate that is not above
    /// 0, or a name with a zero byte.
    pub fn open(name: &str, channels: usize, rate: f64) -> Result<Self> {
        Self::with_format(name, channels, rate, Format::INT16)
    }

    /// A stream of values of another format.
    pub(super) fn with_format(
        name: &str,
        channels: usize,
        rate: f64,
        format: Format,
    ) -> Result<Self> {
        if channels == 0 || i32::try_from(channels).is_err() || !(rate.is_finite() && rate > 0.0) {
            return Err(Error::argument(format!(
                "emulator of LSL: expected channels and a rate above 0, got {channels} and {rate}"
            )));
        }
        let mut outlet = Self {
            lsl: Lsl::load()?,
            name: name.into(),
            channels,
            rate,
            stated_rate: rate,
            format,
            outlet: None,
            next: 0,
            begin_seconds: BEGIN_SECONDS,
        };
        outlet.connect()?;
        Ok(outlet)
    }

    /// Opens the stream, which is another one if it was open.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream.
    pub fn connect(&mut self) -> Result<()> {
        // The one before ends first, so that a search finds the other.
        self.outlet = None;
        let plan = OutletPlan {
            name: &self.name,
            kind: c"Voltage",
            channels: self.channels,
            labels: &[],
            rate: self.stated_rate,
            format: self.format,
        };
        self.outlet = Some(Outlet::new(Arc::clone(&self.lsl), &plan)?);
        Ok(())
    }

    /// Opens another stream that does not state its rate.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the stream.
    #[cfg(test)]
    pub(super) fn without_rate(mut self) -> Result<Self> {
        self.stated_rate = 0.0;
        self.connect()?;
        Ok(self)
    }
}

impl Emulator for LslOutlet {
    /// All rows are a chunk, stamped with the time of the last.
    fn send(&mut self, voltage: &[i16]) -> Result<()> {
        let rows = whole_rows(voltage, self.channels)?;
        let Some(outlet) = self.outlet.as_ref().filter(|_| rows > 0) else {
            return Ok(());
        };
        self.next += rows as u64;
        let last = self.begin_seconds + (self.next - 1) as f64 / self.rate;
        match outlet.push_chunk(voltage, last) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Io,
                format!(
                    "emulator of LSL: liblsl refused {rows} rows of {:?}",
                    self.name
                ),
            )),
        }
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.next += rows;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.begin_seconds += RESTART_SECONDS;
        self.next = 0;
        self.connect()
    }

    fn next_row(&self) -> u64 {
        self.next
    }

    fn is_heard(&self) -> bool {
        self.outlet.as_ref().is_some_and(Outlet::has_consumers)
    }
}
