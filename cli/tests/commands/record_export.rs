//! `betz record export`: a recorded session as NWB, read back by the project's own reader.

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::recording::{Recording, Segment};
use betz::sort::Voltage;
use betz_formats::ReadOptions;
use betz_formats::nwb::{ElectricalSeries, read, read_series};
use betz_live::record::{Facts, Reader, Record, start};
use betz_live::{BackgroundSession, Plan, Rows, Trial};
use betz_rigs::rig::{Block, LineEdge, Loss, Samples};

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
    done(
        folder,
        "train any.npz --decoder linear --step 0.02 --out any.betz",
    );
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
    let told = json(
        folder,
        &format!("record export {recorded} --to nwb --out s.nwb"),
    );
    assert_eq!(
        (&told["bins"], &told["labels"]),
        (&25.into(), &16.into()),
        "{told}"
    );
    assert_eq!((&told["trials"], &told["marks"]), (&1.into(), &1.into()));
    assert_eq!(
        (&told["epochs"][0]["rows"], &told["lost"]),
        (&15_000.into(), &500.into())
    );
    done(folder, &format!("record bins {recorded} --out bins.npz"));
    let nwb = folder.join("s.nwb");
    let (features, _) = read(&nwb, &ReadOptions::default()).unwrap();
    // The file marks the times whose rows were lost, and its reader leaves them out.
    let mut bins = Recording::read_npz(&folder.join("bins.npz")).unwrap();
    bins.segments = [(4, 10), (11, 15), (16, 20)]
        .map(|(start, stop)| Segment { start, stop })
        .to_vec();
    assert_eq!(features, bins);

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
        &format!("record export {recorded} --to nwb --out foreign.nwb"),
        "--force",
    );
    done(
        folder,
        &format!("record export {recorded} --to nwb --out small.nwb --no-voltage"),
    );
    assert!(ElectricalSeries::open(&folder.join("small.nwb"), None).is_err());
    fails(
        folder,
        "record export . --to nwb --out none.nwb",
        "expected a folder that `betz run` recorded",
    );
}

/// Voltage of a row and channel.
fn value(row: u64, channel: usize) -> i16 {
    (row * 31 + channel as u64 * 7) as i16
}

/// Rows of an epoch from `first` on, which arrived when the last of them had passed.
fn recorded_block(epoch: u32, first: u64, rows: u64, begun_ns: i64) -> Block {
    let row = |row| (0..CHANNELS).map(move |channel| value(row, channel));
    Block {
        epoch,
        first,
        rows: rows as usize,
        host_ns: begun_ns + ((first + rows) as f64 / 30_000.0 * 1e9) as i64,
        lost_before: Loss::default(),
        samples: Samples::Voltage((first..first + rows).flat_map(row).collect()),
    }
}

/// Two epochs of a device; in the first, rows are lost and others come late.
#[test]
fn every_row_of_every_epoch_is_exported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --neurons 8 --seconds 12 --tick 0.001 --out any.npz",
    );
    done(
        folder,
        "train any.npz --decoder linear --step 0.02 --out any.betz",
    );
    let text = "[session]\nmodel = \"any.betz\"\n[[source]]\nname = \"c\"\nfrom = \"push\"\nchannels = 8\nrate = 30000\n\
                microvolts = 0.25\n[record]\nto = \"recordings\"\nreserve_mib = 1\n";
    let plan = Plan::parse(text, &folder.join("session.toml"), &[]).unwrap();
    let model = plan.load_model().unwrap();
    let facts = Facts {
        version: 1,
        channels: CHANNELS,
        rate: 30_000.0,
        microvolts: Some(0.25),
        voltage: true,
        noise: None,
        unix_seconds: 1.7e9,
    };
    let to = folder.join("recordings");
    let mut recorder = start(&to, &plan, &model, &facts, 0).unwrap();
    const LATER: i64 = 2_000_000_000;
    for block in [
        recorded_block(0, 0, 300, 0),
        recorded_block(0, 300, 300, 0),
        recorded_block(0, 900, 300, 0),
        // Late: of the gap, 600 to 750 never comes.
        recorded_block(0, 750, 150, 0),
        recorded_block(1, 50, 300, LATER),
        recorded_block(1, 350, 300, LATER),
    ] {
        recorder.block(0, &block);
    }
    recorder.end(0).unwrap();
    let recorded = recorder.folder().display().to_string();

    let told = json(
        folder,
        &format!("record export {recorded} --to flat --out flat --subject J"),
    );
    let of = |at: usize, key: &str| told["epochs"][at][key].clone();
    assert_eq!(
        (of(0, "rows"), of(0, "lost")),
        (1200.into(), 150.into()),
        "{told}"
    );
    assert_eq!(
        (of(1, "rows"), of(1, "lost")),
        (600.into(), 0.into()),
        "{told}"
    );
    let read = |name: &str| -> Vec<i16> {
        let bytes = std::fs::read(folder.join("flat").join(name)).unwrap();
        let (words, _) = bytes.as_chunks::<2>();
        words.iter().map(|word| i16::from_le_bytes(*word)).collect()
    };
    let expected = |first: u64, rows: u64, lost: std::ops::Range<u64>| -> Vec<i16> {
        (first..first + rows)
            .flat_map(|row| (0..CHANNELS).map(move |channel| (row, channel)))
            .map(|(row, channel)| match lost.contains(&row) {
                true => 0,
                false => value(row, channel),
            })
            .collect()
    };
    assert!(read("c_epoch0.dat") == expected(0, 1200, 600..750));
    assert!(read("c_epoch1.dat") == expected(50, 600, 0..0));
    let about = |name: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(folder.join("flat").join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let first = about("c_epoch0.json");
    assert_eq!(first["lost_rows"], serde_json::json!([[600, 750]]));
    assert_eq!(
        (&first["dtype"], &first["gain_to_uV"]),
        (&"int16".into(), &0.25.into())
    );
    // The second epoch began two seconds and 50 rows after the first.
    let begun = about("c_epoch1.json")["start_seconds"].as_f64().unwrap();
    assert!((begun - 2.0 - 50.0 / 30_000.0).abs() < 1e-6, "{begun}");
    assert_eq!(about("session.json")["subject"]["id"], "J");

    // The same rows in NWB, without features: the noise was not measured yet.
    done(
        folder,
        &format!(
            "record export {recorded} --to nwb --out s.nwb --subject J --species Mus --sex M --age P8Y"
        ),
    );
    for (name, first, lost) in [
        ("voltage_c_epoch0", 0, 600..750),
        ("voltage_c_epoch1", 50, 0..0),
    ] {
        let mut series = ElectricalSeries::open(&folder.join("s.nwb"), Some(name)).unwrap();
        let rows = series.rows();
        let mut back = vec![1; rows as usize * CHANNELS];
        series.read(0, &mut back).unwrap();
        assert!(back == expected(first, rows as u64, lost), "{name}");
    }
    // A folder that is there is not written to.
    fails(
        folder,
        &format!("record export {recorded} --to flat --out flat"),
        "flat",
    );
}

/// Two devices of which the second drifts, and whose arrivals are later than those of the first: a pulse that both hear places it.
#[test]
fn a_shared_line_places_a_source() {
    const DRIFT: f64 = 50e-6;
    const DELAY: f64 = 0.9e-3;
    const BEGUN: f64 = 0.1;
    const FIRST: u64 = 777;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plan = "[session]\nstep = \"20ms\"\n[[source]]\nname = \"c\"\nfrom = \"udp://127.0.0.1:5000\"\nchannels = 8\n\
                [[source]]\nname = \"d\"\nfrom = \"udp://127.0.0.1:5001\"\nchannels = 8\n[record]\nto = \"recordings\"\n";
    std::fs::write(folder.join("session.toml"), plan).unwrap();
    let plan = Plan::read(&folder.join("session.toml"), &[]).unwrap();
    let model = plan.load_model().unwrap();
    let facts = Facts {
        version: 2,
        channels: CHANNELS,
        rate: 30_000.0,
        microvolts: Some(0.25),
        voltage: true,
        noise: None,
        unix_seconds: 1.7e9,
    };
    let to = folder.join("recordings");
    let mut recorder = start(&to, &plan, &model, &facts, 0).unwrap();
    recorder.configuration(1, &serde_json::to_string(&facts).unwrap(), 0);
    let host = |seconds: f64| (seconds * 1e9).round() as i64;
    // Rows of either at a true time, which the first device counts.
    let rows = |seconds: f64| (seconds * 30_000.0) as u64;
    let of_second = |seconds: f64| FIRST + ((seconds - BEGUN) * 30_000.0 * (1.0 + DRIFT)) as u64;
    for block in 0..200 {
        let first = block * 300;
        let mut of_first = recorded_block(0, first, 300, 0);
        of_first.host_ns = host((first + 300) as f64 / 30_000.0);
        recorder.block(0, &of_first);
        let mut second = recorded_block(0, FIRST + first, 300, 0);
        let passed = (first + 300) as f64 / 30_000.0 / (1.0 + DRIFT);
        second.host_ns = host(BEGUN + passed + DELAY);
        recorder.block(1, &second);
    }
    let edge = |row, line, is_up| LineEdge {
        epoch: 0,
        row,
        line,
        is_up,
    };
    for pulse in 1..16 {
        let at = 0.12345 * f64::from(pulse);
        for (at, is_up) in [(at, true), (at + 0.02, false)] {
            recorder.edge(0, &edge(rows(at), 1, is_up), host(at));
            // One that the second device misses, and others that are of no pulse.
            if pulse != 5 {
                recorder.edge(1, &edge(of_second(at), 7, is_up), host(at));
            }
        }
    }
    recorder.edge(1, &edge(of_second(1.9), 3, true), 0);
    recorder.end(0).unwrap();
    let recorded = recorder.folder().display().to_string();
    let about = |out: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(folder.join(out).join("d.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let begun = |out: &str| about(out)["start_seconds"].as_f64().unwrap();

    let plain = json(
        folder,
        &format!("record export {recorded} --to flat --out plain"),
    );
    assert_eq!(
        (&plain["lines"], &plain["aligned"]),
        (&59.into(), &serde_json::json!([]))
    );
    // The drift of two seconds is in the arrivals, too.
    assert!((begun("plain") - BEGUN - DELAY).abs() < 1.5e-4);
    let told = json(
        folder,
        &format!("record export {recorded} --to flat --out aligned --align c:1=d:7"),
    );
    let aligned = &told["aligned"][0];
    let number = |key: &str| aligned[key].as_f64().unwrap();
    assert_eq!(
        (&aligned["matched"], &aligned["unmatched"]),
        (&28.into(), &0.into())
    );
    assert!(
        number("largest_us") <= 34.0 && number("rms_us") <= 20.0,
        "{aligned}"
    );
    assert!((number("moved_us") + 850.0).abs() < 100.0, "{aligned}");
    assert!((number("drift_ppm") - 50.0).abs() < 15.0, "{aligned}");
    assert!(
        (begun("aligned") - BEGUN).abs() < 40e-6,
        "{}",
        begun("aligned")
    );
    let rate = about("aligned")["sampling_frequency"].as_f64().unwrap();
    assert!((rate / 30_000.0 - 1.0 - DRIFT).abs() < 15e-6, "{rate}");
    // Lines that no pulse joins, and sources that there are not.
    for (lines, words) in [
        ("c:1=d:3", "expected at least 3 changes of both lines"),
        ("c:1=e:7", "expected sources of the session, c, d, got e"),
        ("c=d", "SOURCE:LINE=SOURCE:LINE"),
    ] {
        fails(
            folder,
            &format!("record export {recorded} --to flat --out none --align {lines}"),
            words,
        );
    }
}
