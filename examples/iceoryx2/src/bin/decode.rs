//! `decode MODEL [--name NAME] [--spin MICROSECONDS] [--silence SECONDS]`: a session from `NAME/counts` to
//! `NAME/movement` until nothing came for so long (5 s).

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use betz_base::{Error, Result};
use betz_iceoryx2::{SharedSink, SharedSource};
use betz_rigs::bus::{Counts, Until, pump};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Session, SessionConfig};
use iceoryx2::prelude::{LogLevel, set_log_level};

const USAGE: &str = "decode MODEL [--name NAME] [--spin MICROSECONDS] [--silence SECONDS]";

fn main() -> ExitCode {
    set_log_level(LogLevel::Error);
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("decode: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (mut model, mut name, mut spin, mut silence) = (None, "betz".to_owned(), 0, 5.0);
    while let Some(word) = words.next() {
        let mut value = || {
            (words.next())
                .ok_or_else(|| Error::argument(format!("{word}: expected a value; {USAGE}")))
        };
        match word.as_str() {
            "--name" => name = value()?,
            "--spin" => spin = number(&value()?)?,
            "--silence" => silence = number(&value()?)?,
            _ if model.is_none() => model = Some(word),
            _ => return Err(Error::argument(format!("got {word:?}; {USAGE}"))),
        }
    }
    let silence = Duration::try_from_secs_f64(silence)
        .map_err(|e| Error::argument(format!("--silence: expected seconds: {e}")))?;
    let model = model.ok_or_else(|| Error::argument(USAGE))?;
    let model = Decoder::load(Path::new(&model))?;
    let mut session = Session::open(&model, SessionConfig::default())?;
    let spin = Duration::from_micros(spin);
    let mut source = SharedSource::open(&name, session.channels(), spin)?;
    let mut sink = SharedSink::open(&name, session.outputs())?;
    eprintln!(
        "listening to {name}/counts: {} channels",
        session.channels()
    );
    let until = Until {
        steps: None,
        silence: Some(silence),
        patience: silence.min(Duration::from_millis(100)),
        stop: &|| false,
    };
    let done = pump(&mut session, &mut source, &mut sink, &until)?;
    println!(
        "{} steps, within Betz p50 {:.1} p99 {:.1} max {:.1} µs",
        done.steps, done.p50_us, done.p99_us, done.max_us
    );
    for (end, counts) in [("source", done.source), ("sink", done.sink)] {
        println!("{end}: {}", describe(&counts));
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    (text.parse()).map_err(|_| Error::argument(format!("expected a number, got {text:?}; {USAGE}")))
}

fn describe(counts: &Counts) -> String {
    let all: Vec<String> = (counts.named().filter(|(_, n)| *n > 0))
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    all.join(", ")
}
