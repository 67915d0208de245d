//! Train a decoder on simulated spikes, save it, load it, decode what it has not seen.
//!
//! ```sh
//! cargo run --release -p betz --example train_and_decode
//! ```

use betz::Result;
use betz::model::{Decoder, decode};
use betz::psc::{Filter, FilterBank};
use betz::simulate::population::{PopulationConfig, simulate};
use betz::train::{Search, TrainOptions, evaluate, train_validated};

fn main() -> Result<()> {
    // 60 neurons that follow a random two-dimensional movement; Recording::read_npz reads yours.
    let config = PopulationConfig {
        neurons: 60,
        train_seconds: 30.0,
        ..PopulationConfig::default()
    };
    let recordings = simulate(&config, 1)?;

    // On the model's clock: one step every 5 ms, behaviour interpolated to each step.
    let train = recordings.train.align(0.005)?;
    let test = recordings.test.align(0.005)?;

    // One filter h(t) = t e^(-t/20 ms) a channel; the ridge is cross-validated.
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.020,
        order: 1,
    }])?;
    let options = TrainOptions {
        delay_steps: 6, // the filtered spikes tell of 30 ms ago
        ..TrainOptions::new(bank)
    };
    let decoder = train_validated(&train, &options, &Search::ridge(), &())?;
    println!(
        "ridge {:.2e}, chosen by cross-validation",
        decoder.training().ridge
    );

    let path = std::env::temp_dir().join("train_and_decode.betz");
    decoder.save(&path)?;
    let decoder = Decoder::load(&path)?;

    // (steps, outputs), row-major; row t estimates the movement at step t - delay.
    let movement = decode(&decoder, &test)?;
    println!("last estimate: {:?}", &movement[movement.len() - 2..]);
    for score in evaluate(&decoder, &test)?.outputs {
        println!(
            "{}: R² {:.3}, NRMSE {:.3}",
            score.name, score.r2, score.nrmse_std
        );
    }
    Ok(())
}
