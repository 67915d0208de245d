//! Digital words of SpikeGLX files as trials and marks of NWB files.

use std::path::Path;

use betz_formats::nwb::{self, LineUse, Moment, Session, WriteOptions, WrittenVoltage};
use betz_formats::voltage::{VoltageRecording, VoltageStream};

const RATE: f64 = 1000.0;
const ROWS: usize = 3000;

fn options() -> WriteOptions {
    let at = |text| Moment::parse(text).unwrap();
    WriteOptions {
        created: at("2026-11-21T12:00:00Z"),
        ..WriteOptions::new(Session::begun(at("2020-10-19T13:00:00-05:00")))
    }
}

/// Rows in which a line of the NI device is up.
fn is_up(line: usize, row: usize) -> bool {
    let spans: &[[usize; 2]] = match line {
        1 => &[[100, 400], [500, 900], [2900, ROWS]],
        16 => &[[0, 50], [300, 301]],
        18 => &[[250, 260], [2000, 2001]],
        _ => &[],
    };
    spans.iter().any(|[from, to]| (*from..*to).contains(&row))
}

/// A run of a probe with two channels and SYNC, and a NI device with an analogue input and two words.
fn streams(folder: &Path) -> Vec<VoltageStream> {
    let save = |name: &str, header: &str, row: &dyn Fn(usize) -> Vec<u16>| {
        let bytes: Vec<u8> = (0..ROWS).flat_map(row).flat_map(u16::to_le_bytes).collect();
        std::fs::write(folder.join(format!("{name}.bin")), bytes).unwrap();
        std::fs::write(folder.join(format!("{name}.meta")), header).unwrap();
    };
    save(
        "r_g0_t0.imec0.ap",
        "typeThis=imec\nnSavedChans=3\nsnsApLfSy=2,0,1\nimSampRate=1000\nimAiRangeMax=0.6\nimMaxInt=512\n\
         imDatPrb_type=0\n~imroTbl=(0,2)(0 0 0 500 250 1)(1 0 0 500 250 1)\n",
        &|row| vec![row as u16, 7, u16::from(row % 1000 >= 500) << 6],
    );
    save(
        "r_g0_t0.nidq",
        "typeThis=nidq\nnSavedChans=3\nsnsMnMaXaDw=0,0,1,2\nniSampRate=1000\nniAiRangeMax=5\n",
        &|row| {
            let word = |first: usize| {
                (0..16).fold(0, |word, bit| {
                    word | u16::from(is_up(first + bit, row)) << bit
                })
            };
            vec![row as u16, word(1), word(17)]
        },
    );
    VoltageRecording::read(folder).unwrap().unwrap().streams
}

fn write(folder: &Path, lines: &[&str]) -> betz_base::Result<WrittenVoltage> {
    let uses: Vec<LineUse> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let streams = streams(folder);
    let all: Vec<&VoltageStream> = streams.iter().collect();
    let out = folder.join("run.nwb");
    nwb::write_voltage(&all, &out, &options(), false, &uses, &())
}

#[test]
fn lines_of_a_file_are_trials_marks_and_changes_at_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "nidq-SYNC:1=trial",
        "nidq-SYNC:18=reward",
        "nidq-SYNC:16=go",
        "imec0.ap-SYNC:7=pulse",
    ];
    let written = write(folder.path(), &lines).unwrap();
    let counts = (written.trials, written.marks, written.changes);
    assert_eq!(counts, (2, 2 + 1 + 3, 5 + 4 + 3 + 5));
    let file = rust_hdf5::H5File::open(folder.path().join("run.nwb")).unwrap();
    let times = |path: &str| {
        let dataset = file.dataset(path).unwrap();
        dataset.read_numeric_as::<f64>().unwrap()
    };
    let texts = |path: &str| file.dataset(path).unwrap().read_vlen_strings().unwrap();
    // The third trial has no end.
    assert_eq!(times("intervals/trials/start_time"), [0.1, 0.5]);
    assert_eq!(times("intervals/trials/stop_time"), [0.4, 0.9]);
    let marks: Vec<(f64, String)> = (times("acquisition/marks/timestamps").into_iter())
        .zip(texts("acquisition/marks/data"))
        .collect();
    // A line that is up in the first row has not gone up.
    let expected = [
        (0.25, "reward"),
        (0.3, "go"),
        (0.5, "pulse"),
        (1.5, "pulse"),
        (2.0, "reward"),
        (2.5, "pulse"),
    ];
    assert_eq!(marks, expected.map(|(at, text)| (at, text.to_owned())));
    // All changes, by a search of every row.
    let mut expected = Vec::new();
    for row in 1..ROWS {
        for line in [1, 18, 16] {
            if is_up(line, row) != is_up(line, row - 1) {
                let way = if is_up(line, row) { "up" } else { "down" };
                expected.push((row as f64 / RATE, format!("nidq-SYNC/{line} {way}")));
            }
        }
    }
    let changes = (times("acquisition/lines/timestamps").into_iter())
        .zip(texts("acquisition/lines/data"))
        .filter(|(_, text)| text.starts_with("nidq"));
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn without_lines_a_file_has_its_voltage_alone() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path(), &[]).unwrap();
    assert_eq!((written.changes, written.series.len()), (0, 4));
    let file = rust_hdf5::H5File::open(folder.path().join("run.nwb")).unwrap();
    assert!(file.dataset("acquisition/nidq-SYNC/data").is_ok());
    assert!(file.dataset("acquisition/lines/data").is_err());
    assert!(file.dataset("intervals/trials/id").is_err());
}

#[test]
fn lines_that_are_not_there_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (lines, words) in [
        // Both devices have words.
        (
            &["1=trial"][..],
            "one of \"imec0.ap-SYNC\", \"nidq-SYNC\", got none",
        ),
        (&["nidq:1=trial"], "got \"nidq\""),
        (
            &["nidq-SYNC:33=go"],
            "expected a line of 1 to 32 of nidq-SYNC, got 33",
        ),
        (&["imec0.ap-SYNC:17=go"], "expected a line of 1 to 16"),
        (
            &["nidq-SYNC:1=trial", "nidq-SYNC:2=trial"],
            "expected one line of trials",
        ),
    ] {
        let error = write(folder.path(), lines).unwrap_err();
        assert!(error.message().contains(words), "{lines:?}: {error}");
        assert!(!folder.path().join("run.nwb").exists());
    }
    for text in [
        "trial", "=trial", "0=trial", "65=go", "a=go", "1=", ":1=go", "x:=go",
    ] {
        let refused = text.parse::<LineUse>().unwrap_err();
        assert!(refused.contains("expected [STREAM:]LINE=TEXT"), "{refused}");
    }
    let whole: LineUse = "a:b:3=x=y".parse().unwrap();
    assert_eq!(whole.to_string(), "a:b:3=x=y");
    assert_eq!(whole.stream.as_deref(), Some("a:b"));
}
