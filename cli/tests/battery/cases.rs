//! The commands of the battery.

use std::fs;
use std::path::Path;
use std::process::Command;

use betz_testkit::Random;

use super::{Case, archives, mistaken};

/// Address spaces in MB.
const LIMITS: [u32; 3] = [100, 300, 1000];

const CROWD: &str = "sparse-1048576.npz";

const TRAIN: &str = "--out OUT.betz --decoder linear --filter 0.1:1 --folds 3";
const MINE: &str = "--interval 0.004,0.006 --threshold 5 --max-size 3";

/// Simulates a recording and events, trains a model, and writes hostile texts beside them.
pub(crate) fn prepare(folder: &Path) {
    let betz = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_betz"))
            .current_dir(folder)
            .args(arguments.split_whitespace())
            .arg("--force")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "betz {arguments}: {said}");
    };
    betz(
        "simulate --out a.npz --test-out t.npz --neurons 10 --seconds 4 --test-seconds 2 --tick 0.001",
    );
    betz("train a.npz --out m.betz --filter 0.02:1 --folds 0 --ridge 1");
    betz("simulate --sym26 --seconds 2 --out s.csv");
    betz("convert a.npz r.nwb --start 2020-10-19T13:00:00Z");
    // Four channels of noise, and a pipe that nobody writes into.
    let mut random = Random::new(5);
    let samples = (0..4 * 6000).flat_map(|_| (random.below(200) as i16 - 100).to_le_bytes());
    fs::write(folder.join("raw.dat"), samples.collect::<Vec<u8>>()).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(made.unwrap().success());
    fs::write(folder.join("e.txt"), "A B\nC -(0.001,0.002]-> D\n").unwrap();
    for (name, bytes) in damaged(folder) {
        fs::write(folder.join(name), bytes).unwrap();
    }
    for (k, text) in texts().iter().enumerate() {
        fs::write(folder.join(format!("text-{k}.csv")), text).unwrap();
    }
    for (k, text) in episodes().iter().enumerate() {
        fs::write(folder.join(format!("episodes-{k}.txt")), text).unwrap();
    }
}

const WHOLE: [(&str, &str); 5] = [
    ("a", "npz"),
    ("m", "betz"),
    ("s", "csv"),
    ("counts", "npz"),
    ("r", "nwb"),
];
const CUTS: usize = 10;
const FLIPS: usize = 14;

fn damaged_name(stem: &str, ending: &str, k: usize) -> String {
    format!("{stem}-damaged-{k}.{ending}")
}

/// Each of the whole files cut short, and with bytes changed.
fn damaged(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (seed, (stem, ending)) in WHOLE.into_iter().enumerate() {
        let mut random = Random::new(seed as u64 + 1);
        let whole = fs::read(folder.join(format!("{stem}.{ending}"))).unwrap();
        for k in 0..CUTS + FLIPS {
            let mut bytes = whole.clone();
            if k < CUTS {
                bytes.truncate(random.below(whole.len()));
            } else {
                for _ in 0..=k - CUTS {
                    let at = random.below(whole.len());
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            all.push((damaged_name(stem, ending, k), bytes));
        }
    }
    all
}

/// Events as text that no one should have written.
fn texts() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "",
        "\n\n\n",
        "label,seconds",
        "label,seconds\n",
        "a",
        "a,",
        ",1",
        "a,1,2",
        "a,b",
        "a,nan",
        "a,inf",
        "a,-inf",
        "a,1e99",
        "a,1e-400",
        "a,1e9999999999999999999",
        "a,--1",
        "a,0x10",
        "a;1",
        "a\t1",
        "\"a,1",
        "\"a\"b,1",
        "\"\",1",
        "\" \",1",
        "a,\"1\"",
        "\"label\", \"seconds\"\n\"a, b\",1",
        "a,1\nb,0",
        "a,1\r\rb,2",
        "a,9223372036854775807\nb,-9223372036854775808",
        "a,1e15\nb,2e15",
        "-,1",
        "#,1",
        "a,0\na,0\na,0",
    ]
    .iter()
    .map(|t| t.as_bytes().to_vec())
    .collect();
    all.push(b"\xef\xbb\xbflabel,seconds\na,1\nb,2\n".to_vec());
    all.push(b"\xff\xfel\0a\0".to_vec());
    all.push(b"\xe9,1\n\xc3\xa9,2\n\xff\xfe\xfd,3\n".to_vec());
    all.push(vec![0; 4096]);
    all.push(vec![b'"'; 4096]);
    all.push(vec![b','; 4096]);
    all.push([vec![b'a'; 100_000], b",1\n".to_vec()].concat());
    all.push(format!("a,{}\n", "9".repeat(100_000)).into_bytes());
    let many: String = (0..20_000)
        .map(|i| format!("s{i},{}\n", f64::from(i) * 1e-3))
        .collect();
    all.push(many.into_bytes());
    let mut random = Random::new(77);
    for _ in 0..8 {
        all.push((0..2000).map(|_| random.below(256) as u8).collect());
    }
    all
}

/// Lists of episodes likewise.
fn episodes() -> Vec<String> {
    let long = |n: usize| vec!["A"; n].join(" ");
    [
        "",
        "#",
        "A",
        "A B C",
        "A -> ",
        "-> A",
        "A -(",
        "A -(1,2]-> ",
        "A -(0.002,0.001]-> B",
        "A -(-1,1]-> B",
        "A -(nan,1]-> B",
        "A -(0,1e300]-> B",
        "Ä B",
        "\"A",
        "\"A\\",
        "A nobody",
        "\u{feff}A B",
    ]
    .iter()
    .map(|t| (*t).to_owned())
    .chain([
        long(255),
        long(256),
        long(257),
        long(10_000),
        long(200_000),
        "x".repeat(100_000),
    ])
    .collect()
}

fn case(arguments: impl Into<String>) -> Case {
    Case {
        arguments: arguments.into(),
        memory: None,
        stdin: None,
    }
}

pub(crate) fn all(folder: &Path) -> Vec<Case> {
    let mut all = damaged_files();
    all.extend(hostile_archives());
    all.extend(other_files());
    all.extend(little_memory());
    all.extend(crowds());
    all.extend(text_files());
    all.extend(nwb_files().into_iter().map(case));
    all.extend(odd_files().into_iter().map(case));
    all.extend(options().into_iter().map(case));
    all.extend(mistaken::all().into_iter().map(case));
    all.extend(over_inputs(folder).into_iter().map(case));
    all
}

/// Damaged files, each to the command that reads it.
fn damaged_files() -> Vec<Case> {
    let mut all = Vec::new();
    for (stem, ending) in WHOLE {
        for k in 0..CUTS + FLIPS {
            let name = damaged_name(stem, ending, k);
            all.push(case(match ending {
                "npz" => format!("train {name} {TRAIN}"),
                "betz" => format!("evaluate {name} t.npz"),
                _ => format!("mine {name} {MINE}"),
            }));
            if ending != "csv" && k % 3 == 0 {
                all.push(case(format!("info {name}")));
            }
        }
    }
    all
}

/// Odd and hostile archives.
fn hostile_archives() -> Vec<Case> {
    let mut all = Vec::new();
    let names = archives::names().into_iter();
    // Full ones of more bins take the memory that the cases below do not give them.
    let small = names.filter(|name| !name.starts_with("full-") || name == "full-4");
    for (k, name) in small.enumerate() {
        all.push(case(format!("train {name}.npz {TRAIN}")));
        if k % 4 == 0 {
            all.push(case(format!("info {name}.npz --picture OUT.svg")));
            let start = "--start 2020-10-19T13:00:00Z";
            all.push(case(format!("convert {name}.npz OUT.nwb {start}")));
            let little = format!("convert {name}.npz OUT-2.nwb {start} --memory 1MB");
            all.push(case(little));
            all.push(case(format!("mine {name}.npz {MINE}")));
            all.push(case(format!("evaluate m.betz {name}.npz")));
        }
    }
    all
}

/// Files of other kinds, a folder, and what is not there.
fn other_files() -> Vec<Case> {
    let mut all = Vec::new();
    for name in [
        "stored.npz",
        "empty.npz",
        "text.npz",
        ".",
        "/dev/null",
        "nowhere.npz",
    ] {
        for command in ["train", "info", "evaluate m.betz", "stream m.betz", "mine"] {
            let rest = match command {
                "train" => TRAIN,
                "mine" => MINE,
                _ => "",
            };
            all.push(case(format!("{command} {name} {rest}")));
        }
    }
    all
}

/// Large and hostile recordings, and large results, with little memory.
fn little_memory() -> Vec<Case> {
    let mut all = Vec::new();
    for memory in LIMITS {
        for name in [
            "full-300",
            "full-4000",
            "full-40000",
            "sparse-9000",
            "sparse-65535",
            "sparse-1048576",
            "sparse-4294967295",
            "bomb",
            "counts",
            "events",
            "half-silent",
            "shape-6",
            "shape-13",
            "last-tick-3",
            "duration-3",
        ] {
            for command in [
                format!("train {name}.npz {TRAIN}"),
                format!("info {name}.npz"),
            ] {
                all.push(Case {
                    memory: Some(memory),
                    ..case(command)
                });
            }
        }
        for command in [
            "simulate --out OUT.npz --neurons 100000".to_owned(),
            "simulate --out OUT.npz --neurons 5 --seconds 1000000".to_owned(),
            "simulate --network --out OUT.npz --neurons 1000000 --seconds 1000".to_owned(),
            format!("train a.npz {TRAIN} --step 0.001 --folds 1000"),
            "train a.npz --out OUT.betz --decoder linear --bank wide --folds 5".to_owned(),
            "evaluate m.betz t.npz --trials --chance 20 --importance --picture OUT.svg --out OUT.csv".to_owned(),
            "stream m.betz t.npz --out OUT.csv".to_owned(),
            format!("mine s.csv {MINE} --surrogates 19"),
            "mine text-40.csv --interval 0,1 --threshold 2 --max-size 2 --top 1".to_owned(),
        ] {
            all.push(Case {
                memory: Some(memory),
                ..case(command)
            });
        }
    }
    all
}

/// Names of a million channels and of many symbols, with memory that ends at any place of the work.
fn crowds() -> Vec<Case> {
    let mut all = Vec::new();
    // In less than the program itself takes (48 MB when it is not optimised), the system does not start it.
    for memory in (60..=260).step_by(20) {
        for command in [
            format!("info {CROWD}"),
            format!("train {CROWD} {TRAIN}"),
            "mine text-40.csv --interval 0,1 --threshold 2 --max-size 2 --top 1".to_owned(),
        ] {
            all.push(Case {
                memory: Some(memory),
                ..case(command)
            });
        }
    }
    all
}

/// Texts, by name and through standard input.
fn text_files() -> Vec<Case> {
    let mut all = Vec::new();
    for k in 0..texts().len() {
        all.push(case(format!("mine text-{k}.csv {MINE}")));
        all.push(Case {
            stdin: Some(format!("text-{k}.csv")),
            ..case(format!("mine - {MINE} --sort --csv OUT.csv"))
        });
    }
    for k in 0..episodes().len() {
        all.push(case(format!(
            "mine s.csv --interval 0,0.005 --count-only episodes-{k}.txt --csv OUT.csv"
        )));
    }
    all
}

/// Damaged NWB files, and tables that are not there.
fn nwb_files() -> Vec<String> {
    let mut all = Vec::new();
    for k in 0..CUTS + FLIPS {
        let name = damaged_name("r", "nwb", k);
        all.push(format!("train {name} {TRAIN}"));
        all.push(format!(
            "network compute {name} --window 2s --step 1s --bin 50ms --threshold 0.1 --out OUT.npz"
        ));
    }
    for option in ["--behavior", "--trial-table", "--within", "--mask-table"] {
        for value in [
            "x",
            "''",
            "trials",
            "trials:",
            "trials:=",
            "trials:a=b",
            ":",
            "none",
            "/",
            "intervals/trials",
        ] {
            all.push(format!("train r.nwb {TRAIN} {option} {value}"));
            all.push(format!("evaluate m.betz a.npz {option} {value}"));
        }
    }
    all
}

/// Pipes without a writer, folders as files, wrong numbers of channels, limits of file sizes.
fn odd_files() -> Vec<String> {
    let mut all = Vec::new();
    for input in [
        "pipe",
        "made",
        "/dev/zero",
        "/dev/full",
        "raw.dat",
        "s.csv",
        "a.npz",
    ] {
        for command in [
            "info",
            "sort train --rate 30000 --channels 4 --gain 0.2 --out OUT.betz",
            "sort run m.betz --channels 4 --out OUT.npz",
            "sort show",
            "som --map 3x3 --out OUT.npz",
            "solve --out OUT.betz",
            "join --out OUT.npz",
            "network export --out OUT.csv",
        ] {
            // These read a pipe once, from its beginning: they wait for its writer, as every program does.
            let once = ["network export", "som "];
            if input == "pipe" && once.iter().any(|c| command.starts_with(c)) {
                continue;
            }
            all.push(format!("{command} {input}"));
        }
    }
    for channels in ["1", "2", "3", "5", "7", "8", "64", "100000"] {
        all.push(format!(
            "sort train raw.dat --rate 30000 --channels {channels} --gain 0.2 --until 0.1 --out OUT.betz"
        ));
    }
    for out in ["new/", "made/", "./", "..", "pipe/", "a.npz/"] {
        all.push(format!("train a.npz --out {out} --filter 0.02:1 --folds 0"));
        all.push(format!("simulate --seconds 1 --neurons 2 --out {out}"));
        all.push(format!(
            "sort train raw.dat --rate 30000 --channels 4 --gain 0.2 --out {out}"
        ));
    }
    for fdr in ["0.001", "0.01", "0.2", "1"] {
        for surrogates in ["1", "19", "99"] {
            all.push(format!(
                "mine s.csv {MINE} --surrogates {surrogates} --fdr {fdr}"
            ));
        }
    }
    all
}

/// Nothing if `option` is the first of `usual`.
fn unless_given<'a>(usual: &'a str, option: &str) -> &'a str {
    if usual.starts_with(option) { "" } else { usual }
}

/// Options out of every range.
fn options() -> Vec<String> {
    let mut all = Vec::new();
    let numbers = "0 -1 nan inf -inf 1e300 1e-300 4294967295 1000000000000 x ''";
    for n in numbers.split(' ') {
        for option in [
            "--folds",
            "--ridge",
            "--noise",
            "--step",
            "--delay",
            "--low-pass",
            "--units",
            "--max-gap",
            "--from",
            "--until",
            "--segments",
        ] {
            all.push(format!(
                "train a.npz --out OUT.betz --decoder linear --filter 0.02:1 {option}={n}"
            ));
        }
        for option in [
            "--neurons",
            "--seconds",
            "--tick",
            "--test-seconds",
            "--rates",
            "--units",
        ] {
            let seconds = unless_given("--seconds 1", option);
            let neurons = unless_given("--neurons 4", option);
            all.push(format!(
                "simulate --out OUT.npz {seconds} {neurons} {option}={n} --test-out OUT-test.npz"
            ));
        }
        for option in [
            "--neurons",
            "--seconds",
            "--tick",
            "--rate",
            "--connection",
            "--delay",
            "--chains",
        ] {
            let seconds = unless_given("--seconds 1", option);
            all.push(format!(
                "simulate --network --out OUT.csv {seconds} {option}={n}"
            ));
        }
        for option in [
            "--threshold",
            "--surrogates 2 --dither",
            "--top",
            "--surrogates 3 --fdr",
            "--interval",
        ] {
            let threshold = unless_given("--threshold 9 --max-size 2", option);
            all.push(format!(
                "mine s.csv --interval 0.004,0.006 {threshold} {option}={n}"
            ));
        }
        for option in [
            "--align 0.5 --bin",
            "--align 0.5 --window 0..",
            "--align",
            "--tune x --tune-bins",
            "--tune map:x,y --tune-bins",
            "--tune x --lag",
            "--tune x --min-time",
            "--refractory",
            "--channels",
            "--segments",
        ] {
            let space = if option.ends_with("..") { "" } else { "=" };
            all.push(format!("look t.npz {option}{space}{n}"));
        }
        all.push(format!("look t.npz --intervals={n}"));
        for option in ["--segments", "--from", "--until"] {
            all.push(format!("decode m.betz t.npz --out OUT.csv {option}={n}"));
        }
        for option in ["--folds", "--step", "--delay", "--segments"] {
            all.push(format!(
                "compare t.npz --bank single --decoders kalman {option}={n}"
            ));
        }
        all.push(format!("stream m.betz t.npz --deadline={n}"));
        if n.len() <= 5 {
            all.push(format!("evaluate m.betz t.npz --chance={n}"));
        }
    }
    all
}

/// Outputs that name inputs, each other, folders, devices.
fn over_inputs(folder: &Path) -> Vec<String> {
    std::os::unix::fs::symlink("a.npz", folder.join("link.npz")).ok();
    fs::hard_link(folder.join("s.csv"), folder.join("hard.csv")).ok();
    let mut all = Vec::new();
    for to in [
        "a.npz",
        "link.npz",
        "./a.npz",
        "made/../a.npz",
        "m.betz",
        "made",
        "nowhere/x",
        "/dev/full",
        "/dev/null",
        "/dev/fd/1",
        "/dev/fd/77",
        "/",
    ] {
        all.push(
            format!("train a.npz --out {to} --filter 0.02:1 --folds 0 --ridge 1")
                .replace("--out m.betz", "--out t.npz"),
        );
        all.push(format!("evaluate m.betz a.npz --out {to}"));
        all.push(
            format!("stream m.betz a.npz --out {to} --force")
                .replace("--out made ", "--out ./made "),
        );
    }
    for to in ["s.csv", "hard.csv", "e.txt", "made"] {
        all.push(format!(
            "mine s.csv --interval 0,0.005 --count-only e.txt --csv {to}"
        ));
        all.push(format!(
            "mine s.csv --interval 0,0.005 --count-only e.txt --csv {to} --force"
        ));
    }
    all
}
