//! `betz record nwb`: a recorded session as NWB, read back by the project's own reader.

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::recording::Recording;
use betz::sort::Voltage;
use betz_interop::ReadOptions;
use betz_interop::nwb::{ElectricalSeries, read, read_series};
use betz_interop::rig::Samples;
use betz_live::record::{Reader, Record};
use betz_live::{BackgroundSession, Plan, Rows, Trial};

use crate::program::{done, fails, json};

const CHANNELS: usize = 8;
const BLOCK: usize = 300;

/// Half a second of noise, of which a block and then the rest of another are lost.
fn blocks() -> Vec<(u64, Vec<i16>)> {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as i32 % 200 - 100) as i16
    };
    let rows =
        |n: usize, noise: &mut dyn FnMut() -> i16| (0..n * CHANNELS).map(|_| noise()).collect();
    let mut blocks = Vec::new();
    for block in 0..50 {
        let voltage: Vec<i16> = rows(BLOCK, &mut noise);
        let first = 1000 + (block * BLOCK) as u64;
        match block {
            20 => {}
            30 => blocks.push((first, voltage[..100 * CHANNELS].to_vec())),
            _ => blocks.push((first, voltage)),
        }
    }
    blocks
}

/// Runs a session of `blocks` with a mark, labels and a trial that is rejected; returns the folder of its recording.
fn record(folder: &Path, blocks: &[(u64, Vec<i16>)]) -> PathBuf {
    done(
        folder,
        "simulate --neurons 8 --seconds 12 --tick 0.001 --out any.npz",
    );
    done(folder, "train any.npz --step 0.02 --out any.betz");
    let plan = "[session]\nmodel = \"any.betz\"\n[[source]]\nname = \"c\"\nfrom = \"push\"\nchannels = 8\nrate = 30000\n\
                microvolts = 0.25\n[voltage]\nnoise = { calibrate = \"60ms\", track = \"0s\" }\n\
                [missing]\nstale_after = \"1h\"\nbacklog = 1000000\n[record]\nto = \"recordings\"\n";
    let file = folder.join("session.toml");
    std::fs::write(&file, plan).unwrap();
    let session = BackgroundSession::open(Plan::read(&file, &[]).unwrap()).unwrap();
    session.start().unwrap();
    for (i, (first, voltage)) in blocks.iter().enumerate() {
        let pusher = session.pusher().unwrap();
        let long = Duration::from_secs(3600);
        assert!(
            pusher
                .push(Some(*first), Rows::Voltage(voltage), long)
                .unwrap()
        );
        if i == 10 {
            // The loop has begun, so that there is a recording.
            let mut reader = session.reader();
            let mut out = reader.output();
            reader.next(&mut out, long);
            session.trial(Trial::Begin).unwrap();
            session.mark("reward").unwrap();
            for step in 4..20 {
                session.label(Some(step), &[step as f32, -1.0]).unwrap();
            }
            session.trial(Trial::Reject).unwrap();
            session.health().unwrap();
        }
    }
    session.pusher().unwrap().end();
    let mut reader = session.reader();
    let mut out = reader.output();
    while reader.next(&mut out, Duration::from_secs(3600)) != betz_live::Reading::Over {}
    session.stop().unwrap().folder.unwrap()
}

#[test]
fn a_session_becomes_nwb_and_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let blocks = blocks();
    let recorded = record(folder, &blocks);
    let recorded = recorded.display();
    let told = json(folder, &format!("record nwb {recorded} --out s.nwb"));
    assert_eq!(
        (&told["steps"], &told["labels"]),
        (&25.into(), &16.into()),
        "{told}"
    );
    assert_eq!((&told["trials"], &told["marks"]), (&1.into(), &1.into()));
    assert_eq!(
        (&told["rows"], &told["lost"]),
        (&15_000.into(), &500.into())
    );
    done(folder, &format!("record bins {recorded} --out bins.npz"));
    let nwb = folder.join("s.nwb");
    let (features, _) = read(&nwb, &ReadOptions::default()).unwrap();
    assert_eq!(
        features,
        Recording::read_npz(&folder.join("bins.npz")).unwrap()
    );

    let mut voltage = ElectricalSeries::open(&nwb, None).unwrap();
    assert_eq!(
        (voltage.rate_hz(), voltage.microvolts()),
        (30_000.0, Some(0.25))
    );
    let mut expected = vec![0; 15_000 * CHANNELS];
    for (first, block) in &blocks {
        let at = (first - 1000) as usize * CHANNELS;
        expected[at..at + block.len()].copy_from_slice(block);
    }
    let mut back = vec![1; expected.len()];
    assert_eq!(voltage.read(0, &mut back).unwrap(), 15_000);
    assert!(back == expected);

    // The outputs of the session, at the ends of its steps.
    let mut outputs = Vec::new();
    let mut frames = Reader::open(recorded.to_string().as_ref()).unwrap();
    let mut rows = 0;
    while let Some(record) = frames.next_record().unwrap() {
        match record {
            Record::Step { values, .. } => outputs.extend(values.iter().map(|v| f64::from(*v))),
            Record::Block(_, block) => {
                assert!(matches!(block.samples, Samples::Voltage(_)));
                rows += block.rows;
            }
            _ => {}
        }
    }
    assert_eq!(rows, 14_500);
    let decoded = read_series(&nwb, "processing/decoding/decoded").unwrap();
    assert_eq!((decoded.values, decoded.columns.len()), (outputs, 2));
    assert!((decoded.times[0] - 0.02).abs() < 1e-9 && decoded.times.len() == 25);

    // A foreign file is not replaced unasked, the voltage may stay away, and another folder is refused.
    std::fs::write(folder.join("foreign.nwb"), "not ours").unwrap();
    fails(
        folder,
        &format!("record nwb {recorded} --out foreign.nwb"),
        "--force",
    );
    done(
        folder,
        &format!("record nwb {recorded} --out small.nwb --no-voltage"),
    );
    assert!(ElectricalSeries::open(&folder.join("small.nwb"), None).is_err());
    fails(
        folder,
        "record nwb . --out none.nwb",
        "expected a folder that `betz run` recorded",
    );
}
