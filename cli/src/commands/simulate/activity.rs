//! Spikes of the last moments as dots in a terminal: a row for some neurons, a column for some steps, as the
//! raster of Galbraith 2010 (§4.4.3), which shows 250 ms.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use betz::spiking::Network;
use betz::{Error, ErrorKind, Result};

use crate::report;

/// Characters of the picture, each of 2 × 4 dots.
const WIDTH: usize = 64;
const HEIGHT: usize = 16;
/// Pictures a second of a live raster.
const PER_SECOND: f64 = 15.0;

/// The spikes of the last steps.
pub(super) struct Activity {
    neurons: u64,
    step_ms: f64,
    /// Population and its first neuron.
    populations: Vec<(String, u64)>,
    /// The last steps there are, and how many of them are shown.
    last: VecDeque<Vec<u32>>,
    shown: usize,
}

impl Activity {
    /// The activity of the last `shown_ms`.
    pub(super) fn new(network: &Network, shown_ms: f64) -> Self {
        let names = network.populations.iter().map(|p| p.name.clone());
        Self {
            neurons: network.neurons(),
            step_ms: network.step_ms,
            populations: names.zip(network.firsts()).collect(),
            last: VecDeque::new(),
            shown: ((shown_ms / network.step_ms).ceil() as usize).max(1),
        }
    }

    /// Steps that are shown.
    pub(super) fn steps(&self) -> u64 {
        self.shown as u64
    }

    /// The neurons that fired in the next step.
    pub(super) fn hear(&mut self, fired: &[u32]) {
        // The list that leaves is filled anew.
        let mut list = if self.last.len() == self.shown {
            self.last.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        list.clear();
        list.extend_from_slice(fired);
        // Threads and ranks bring them in an order of their own.
        list.sort_unstable();
        self.last.push_back(list);
    }

    /// Name and first neuron of each population.
    pub(super) fn populations(&self) -> &[(String, u64)] {
        &self.populations
    }

    /// Milliseconds before the end, negative, and neuron of each spike that is shown.
    pub(super) fn spikes(&self) -> Vec<(f64, u64)> {
        let steps = self.last.iter().rev().zip(1..);
        let mut spikes: Vec<(f64, u64)> = steps
            .flat_map(|(fired, age)| {
                let at = -f64::from(age) * self.step_ms;
                fired.iter().map(move |&neuron| (at, u64::from(neuron)))
            })
            .collect();
        spikes.reverse();
        spikes
    }

    /// The picture, a line each, newest steps to the right, names of populations where their first row is.
    fn lines(&self) -> Vec<String> {
        let mut dots = vec![0u8; WIDTH * HEIGHT];
        let missing = self.shown - self.last.len();
        for (age, fired) in self.last.iter().enumerate() {
            let x = (missing + age) * 2 * WIDTH / self.shown;
            for &neuron in fired {
                let y = self.row(u64::from(neuron));
                dots[y / 4 * WIDTH + x / 2] |= dot(x % 2, y % 4);
            }
        }
        (0..HEIGHT)
            .map(|line| {
                let here = |first: u64| self.row(first) / 4 == line;
                let name = self.populations.iter().find(|(_, first)| here(*first));
                let name: String = name.map_or("", |(name, _)| name).chars().take(10).collect();
                let cells = &dots[line * WIDTH..(line + 1) * WIDTH];
                let cells: String = cells.iter().map(|bits| braille(*bits)).collect();
                format!("{name:<10} {cells}")
            })
            .collect()
    }

    /// The row of dots that a neuron is shown in.
    fn row(&self, neuron: u64) -> usize {
        (neuron * 4 * HEIGHT as u64 / self.neurons.max(1)) as usize
    }

    /// Meaning of a dot.
    fn legend(&self) -> String {
        let (rows, columns) = ((4 * HEIGHT) as f64, (2 * WIDTH) as f64);
        format!(
            "the last {} ms; a row of dots: {}, a column: {} ms",
            self.shown as f64 * self.step_ms,
            match self.neurons as f64 / rows {
                few if few <= 1.0 => "a neuron".to_owned(),
                many => format!("{many:.1} neurons"),
            },
            (self.shown as f64 * self.step_ms / columns * 100.0).round() / 100.0
        )
    }

    /// Prints the picture.
    pub(super) fn print(&self) -> Result<()> {
        self.lines()
            .iter()
            .try_for_each(|line| report::line(line))?;
        report::line(&self.legend())
    }
}

/// The bit of a dot of a character.
fn dot(x: usize, y: usize) -> u8 {
    const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
    BITS[x][y]
}

fn braille(bits: u8) -> char {
    char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')
}

/// A place in the terminal where a raster is drawn again and again.
pub(super) struct View {
    /// Seconds of the clock at the last picture; none yet.
    drawn: Option<f64>,
}

impl View {
    /// # Errors
    /// `InvalidArgument` where standard error is no terminal.
    pub(super) fn open() -> Result<Self> {
        if !std::io::stderr().is_terminal() {
            return Err(Error::argument(
                "--live: expected a terminal to draw on, got none; --raster prints the last spikes once",
            ));
        }
        Ok(Self { drawn: None })
    }

    /// Draws, seldom enough, and waits until the clock has come to `simulated` seconds.
    pub(super) fn show(&mut self, activity: &Activity, simulated: f64, clock: f64) -> Result<()> {
        if self
            .drawn
            .is_none_or(|drawn| clock - drawn >= 1.0 / PER_SECOND)
        {
            let mut text = String::new();
            if self.drawn.is_some() {
                // Back to the first line of the picture before.
                text.push_str(&format!("\x1b[{}A", HEIGHT + 1));
            }
            for line in activity.lines() {
                text.push_str(&format!("\x1b[2K{line}\n"));
            }
            text.push_str(&format!(
                "\x1b[2K{simulated:.2} s, {:.2} × real time; {}\n",
                simulated / clock.max(1e-9),
                activity.legend()
            ));
            let mut out = std::io::stderr().lock();
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .map_err(|e| Error::new(ErrorKind::Io, format!("drawing a raster: {e}")))?;
            self.drawn = Some(clock);
        }
        let ahead = simulated - clock;
        if ahead > 1e-3 {
            std::thread::sleep(Duration::from_secs_f64(ahead.min(1.0)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz::spiking::Population;

    #[test]
    fn the_newest_spikes_are_to_the_right_and_neurons_from_above() {
        let mut network = Network::new(1.0, 1);
        network.populations.push(Population::new("first", 64));
        let mut activity = Activity::new(&network, 128.0);
        assert_eq!(activity.steps(), 128);
        for _ in 0..300 {
            activity.hear(&[]);
        }
        activity.hear(&[0, 63]);
        let lines = activity.lines();
        let last = |line: &str| line.chars().last();
        assert_eq!((lines.len(), last(&lines[0])), (16, Some('\u{2808}')));
        assert_eq!(last(&lines[15]), Some('\u{2880}'));
        assert!(lines[0].starts_with("first ") && lines[1].starts_with("      "));
        let dots = lines
            .iter()
            .flat_map(|l| l.chars())
            .filter(|c| ('\u{2801}'..='\u{28ff}').contains(c));
        assert_eq!(dots.count(), 2);
        // A step later they are a dot to the left, and drop out after 128.
        activity.hear(&[]);
        assert_eq!(last(&activity.lines()[0]), Some('\u{2801}'));
        (0..127).for_each(|_| activity.hear(&[]));
        assert!(
            activity
                .lines()
                .iter()
                .all(|line| !line.contains('\u{2801}'))
        );
        assert_eq!(
            activity.legend(),
            "the last 128 ms; a row of dots: a neuron, a column: 1 ms"
        );
    }
}
