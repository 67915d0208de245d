//! Time and memory of reading an NWB file's units:
//!
//! ```sh
//! cargo run --release -p betz-programs --bin nwb_units -- FILE times|recording [UNIT…]
//! ```

use std::path::Path;
use std::time::Instant;

use betz_base::{Error, Result};
use betz_formats::{ReadOptions, nwb};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, what, units @ ..] = &arguments[..] else {
        return Err(Error::argument("expected FILE times|recording [UNIT…]"));
    };
    let file = Path::new(file);
    let began = Instant::now();
    let spikes = match what.as_str() {
        "times" => nwb::read_units(file)?.times.len(),
        _ => {
            let options = ReadOptions {
                units: units.to_vec(),
                ..ReadOptions::default()
            };
            nwb::read(file, &options)?.0.spikes.len()
        }
    };
    println!("{spikes} spikes in {:.2} s", began.elapsed().as_secs_f64());
    Ok(())
}
