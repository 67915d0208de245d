//! Mishaps of a laboratory: front end and sorter under hostile input.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_sort::synthetic::{Synthetic, make};
use betz_sort::{
    Crossing, ErrorKind, FrontEnd, InMemory, Layout, Reference, Settings, TrainOptions, train,
};

fn layout(channels: usize, apart_um: f32) -> Layout {
    Layout {
        row_channels: channels,
        used: (0..channels as u32).collect(),
        places: (0..channels).map(|c| [c as f32 * apart_um, 0.0]).collect(),
        noise: vec![5.0; channels],
        focused: vec![1.0; channels],
        regression: Vec::new(),
    }
}

fn crossings(front: &mut FrontEnd, samples: &[i16]) -> Vec<Crossing> {
    let mut all = Vec::new();
    for row in samples.chunks_exact(front.layout().row_channels) {
        front.step(row);
        while let Some(crossing) = front.take() {
            all.push(crossing);
        }
    }
    all
}

/// Troughs of 200 µV, 0.3 ms wide, at these samples of these channels.
fn troughs(channels: usize, rows: usize, at: &[(usize, usize, f64)]) -> Vec<i16> {
    let mut samples = vec![0.0; rows * channels];
    for &(row, channel, microvolts) in at {
        for i in row - 12..row + 12 {
            let apart = (i as f64 - row as f64) / 4.0;
            samples[i * channels + channel] -= microvolts * (-0.5 * apart * apart).exp();
        }
    }
    samples.iter().map(|v| (v / 0.195).round() as i16).collect()
}

#[test]
fn of_two_spikes_within_the_exclusion_the_larger_is_kept() {
    let mut settings = Settings::new(30_000.0, 0.195);
    settings.tracking_seconds = 0.0;
    // 0.3 ms apart on neighbours, on electrodes beyond reach, and a millisecond apart.
    let near = troughs(2, 3000, &[(1000, 0, 100.0), (1009, 1, 200.0)]);
    let found = crossings(
        &mut FrontEnd::new(&settings, &layout(2, 20.0)).unwrap(),
        &near,
    );
    assert!(
        found
            .iter()
            .any(|c| c.channel == 1 && (c.sample - 1010).abs() < 5),
        "{found:?}"
    );
    assert!(found.iter().all(|c| c.channel == 1), "{found:?}");
    let found = crossings(
        &mut FrontEnd::new(&settings, &layout(2, 400.0)).unwrap(),
        &near,
    );
    assert!(found.iter().any(|c| c.channel == 0) && found.iter().any(|c| c.channel == 1));
}

#[test]
fn hum_and_offsets_are_no_spikes_and_stimulation_is_blanked() {
    let quiet = Synthetic {
        seconds: 3.0,
        units: 0,
        hum_microvolts: 1000.0,
        ..Synthetic::probe(1)
    };
    let mut settings = Settings::new(30_000.0, 0.195);
    settings.threshold = 6.0;
    let made = make(&quiet).unwrap();
    let found = crossings(
        &mut FrontEnd::new(&settings, &layout(32, 400.0)).unwrap(),
        &made.samples,
    );
    assert!(found.len() < 10, "{} crossings of hum", found.len());

    // A shock each 10 ms: each is an artefact of its own, and nothing around it is a spike.
    let shocked = Synthetic {
        artefact_seconds: 0.01,
        ..quiet
    };
    let made = make(&shocked).unwrap();
    let mut front = FrontEnd::new(&settings, &layout(32, 400.0)).unwrap();
    let found = crossings(&mut front, &made.samples);
    let shocks = 300;
    let counted = front.blanked().artefacts;
    assert!(counted >= shocks - 10, "{counted} artefacts");
    for crossing in &found {
        let since = crossing.sample % 300;
        assert!(
            since > 30 || since == 0,
            "a spike {since} samples after a shock"
        );
    }
}

#[test]
fn silent_and_clipped_channels_are_left_out_and_a_thousand_channels_run() {
    let of = Synthetic {
        seconds: 5.0,
        ..Synthetic::tetrode(9)
    };
    let made = make(&of).unwrap();
    let mut wide = Vec::new();
    for (i, row) in made.samples.chunks_exact(4).enumerate() {
        wide.extend_from_slice(row);
        wide.push(0);
        wide.push(if i % 3 == 0 {
            i16::MAX
        } else {
            -2000 + (i % 50) as i16
        });
    }
    let mut places: Vec<_> = of.places.iter().map(|p| Some(*p)).collect();
    places.extend([Some([500.0, 0.0]), Some([900.0, 0.0])]);
    let settings = Settings::new(of.rate_hz, of.gain);
    let mut voltage = InMemory::new(&wide, 6).unwrap();
    let trained = train(
        &mut voltage,
        &TrainOptions::new(settings.clone(), places),
        &(),
    )
    .unwrap();
    assert_eq!((trained.silent, trained.clipped), (vec![4], vec![5]));
    assert_eq!(trained.sorter.layout().channels(), 4);

    // Everything crosses at once: blanked, in bounded time and room.
    let mut front = FrontEnd::new(&settings, &layout(1000, 20.0)).unwrap();
    let mut row = vec![0_i16; 1000];
    for i in 0..2000 {
        row.fill(if i % 40 < 3 { -1500 } else { 300 });
        front.step(&row);
        assert!(front.take().is_none());
    }
    assert!(front.blanked().artefacts > 0);
}

#[test]
fn settings_and_layouts_that_make_no_sense_are_refused() {
    let good = Settings::new(30_000.0, 0.195);
    type Change = fn(&mut Settings);
    let changes: [Change; 9] = [
        |s| s.rate_hz = f64::NAN,
        |s| s.microvolts = 0.0,
        |s| s.low_hz = -1.0,
        |s| s.high_hz = 15_000.0,
        |s| s.order = 0,
        |s| s.order = 9,
        |s| s.threshold = f64::NAN,
        |s| s.exclusive_ms = 1e9,
        |s| s.tracking_seconds = f64::INFINITY,
    ];
    for change in changes {
        let mut settings = good.clone();
        change(&mut settings);
        let error = FrontEnd::new(&settings, &layout(2, 20.0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let mut none = layout(2, 20.0);
    none.noise[1] = 0.0;
    assert!(FrontEnd::new(&good, &none).is_err());
    none.noise.pop();
    assert!(FrontEnd::new(&good, &none).is_err());
    let mut beyond = layout(2, 20.0);
    beyond.used[1] = 2;
    assert!(FrontEnd::new(&good, &beyond).is_err());
    let regressed = Settings {
        reference: Reference::Regression,
        ..good
    };
    assert!(FrontEnd::new(&regressed, &layout(2, 20.0)).is_err());
}
