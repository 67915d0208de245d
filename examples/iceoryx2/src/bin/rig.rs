//! `rig [--name NAME] [--channels 96] [--steps 20000] [--spin MICROSECONDS]`: sends made spikes to `NAME/counts`, reads
//! `NAME/movement`, and prints the round trips.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};
use betz_iceoryx2::{Receiver, Sender, StepHeader, counts_of, movement_of};
use iceoryx2::prelude::{LogLevel, set_log_level};

const USAGE: &str = "rig [--name NAME] [--channels N] [--steps N] [--spin MICROSECONDS]";
/// Between an answer and the next step.
const PAUSE: Duration = Duration::from_micros(200);
/// A step that was not answered for so long is lost.
const PATIENCE: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rig: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (mut name, mut channels, mut steps, mut spin) =
        ("betz".to_owned(), 96_usize, 20_000_u64, 0);
    while let Some(word) = words.next() {
        let value = (words.next())
            .ok_or_else(|| Error::argument(format!("{word}: expected a value; {USAGE}")))?;
        match word.as_str() {
            "--name" => name = value,
            "--channels" => channels = number(&value)?,
            "--steps" => steps = number(&value)?,
            "--spin" => spin = number(&value)?,
            _ => return Err(Error::argument(format!("got {word:?}; {USAGE}"))),
        }
    }
    let mut movement = Receiver::<f32>::open(&movement_of(&name), Duration::from_micros(spin))?;
    let spikes = Sender::<u16>::open(&counts_of(&name), channels)?;
    let began = Instant::now();
    let mut counts = vec![0_u16; channels];
    let (mut times, mut lost, mut random) = (Vec::new(), 0_u64, 1_u64);
    for sequence in 0..steps {
        for count in &mut counts {
            // Knuth's generator; a spike in one of five bins.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *count = u16::from(random >> 60 < 3);
        }
        let header = StepHeader {
            sequence,
            sent: i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX),
            ..StepHeader::default()
        };
        let started = Instant::now();
        spikes.send(header, &counts)?;
        if receive_answer(&mut movement, &header)? {
            times.push(started.elapsed().as_secs_f64() * 1e6);
        } else {
            lost += 1;
            if times.is_empty() {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!(
                        "expected an answer from {} within a second, got none: does decode run?",
                        movement_of(&name)
                    ),
                ));
            }
        }
        std::thread::sleep(PAUSE);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    println!(
        "{channels} counts, {} of {steps} steps answered, {lost} lost: round trip p50 {:.1} p99 {:.1} max {:.1} µs",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

/// True if the answer to `asked` came; older answers are skipped.
fn receive_answer(movement: &mut Receiver<f32>, asked: &StepHeader) -> Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let came = movement.take(left, |header, _, _| (header.sequence, header.sent))?;
        match came {
            Some(step) if step == (asked.sequence, asked.sent) => return Ok(true),
            Some(_) => {}
            None => return Ok(false),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    (text.parse()).map_err(|_| Error::argument(format!("expected a number, got {text:?}; {USAGE}")))
}
