//! Ctrl-C: interrupted work exits with 130 and never replaces an earlier, complete result.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use betz::recording::Recording;
use betz::recording::arrays::{Array, write};

use crate::program::{command, done, interrupt, json};

/// The moment of an interrupt.
#[derive(PartialEq)]
enum Moment {
    /// As soon as the command listens.
    Beginning,
    /// Once it has said how far it is.
    Work,
}

/// Starts a command that takes long. It computes on one thread: these tests wait until it is at work, and others want the
/// processors.
fn spawned(folder: &Path, line: &str) -> Child {
    command(folder, line)
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs `line`, which takes long, interrupts it, and checks that `out` has stayed what it is.
fn interrupted(folder: &Path, line: &str, out: &str, when: Moment) {
    let earlier = fs::read(folder.join(out)).unwrap();
    let mut child = spawned(folder, line);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while when == Moment::Work && !said.contains(" %, ") {
        let read = errors.read_line(&mut said).unwrap();
        assert!(read > 0, "{line} ended by itself: {said}");
    }
    interrupt(&mut child);
    errors.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{line}: {said}");
    assert!(said.contains("betz: interrupted: "), "{line}: {said}");
    assert!(!said.contains("panicked"), "{line}: {said}");
    assert!(fs::read(folder.join(out)).unwrap() == earlier, "{line}");
    let left = fs::read_dir(folder).unwrap();
    let temporary = left.filter(|f| {
        let name = f.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".tmp")
    });
    assert_eq!(temporary.count(), 0, "{line}: a temporary file is left");
}

#[test]
fn a_spiking_network_leaves_a_partial_recording_beside_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let simulate = "simulate --ring 100 --compat galbraith --out r.npz --counts c.txt --seconds";
    done(folder, &format!("{simulate} 0.1"));
    let counts = fs::read(folder.join("c.txt")).unwrap();
    interrupted(folder, &format!("{simulate} 1e7"), "r.npz", Moment::Work);
    assert!(fs::read(folder.join("c.txt")).unwrap() == counts);
    let partial = Recording::read_npz(&folder.join("r.npz.partial")).unwrap();
    let meta = partial.meta.unwrap();
    assert!(meta.contains("\"interrupted\": true"), "{meta}");
}

#[test]
fn a_page_of_experiments_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "reproduce som --tiny --device cpu --out page.html");
    let spiking = "reproduce spiking --device cpu --out page.html";
    interrupted(folder, spiking, "page.html", Moment::Beginning);
}

/// `signal.npz` of unrelated nodes.
fn noise(folder: &Path, samples: usize, nodes: usize) {
    let mut state = 1_u32;
    let values: Vec<f32> = (0..samples * nodes)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32
        })
        .collect();
    write(
        &folder.join("signal.npz"),
        &[("signal", Array::F32(&[samples, nodes], &values))],
    )
    .unwrap();
}

#[test]
fn a_correlation_network_leaves_a_partial_one_beside_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    noise(folder, 40_000, 200);
    let compute = "network compute signal.npz --out n.npz --threshold 0.99 --device cpu --window";
    done(folder, &format!("{compute} 2000 --step 2000"));
    interrupted(
        folder,
        &format!("{compute} 200 --step 1 --measure spearman"),
        "n.npz",
        Moment::Work,
    );
    let partial = json(folder, "info n.npz.partial");
    assert_eq!(partial["meta"]["complete"], false, "{partial}");
}

/// Values of all pairs that are written block by block: without the last of them, the edges are still written.
#[test]
fn a_network_is_written_when_its_pairs_are_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    noise(folder, 140, 4_100);
    let line = "network compute signal.npz --out n.zarr --window 100 --step 1 --threshold 0.45 --device cpu --full";
    let mut child = spawned(folder, line);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("are written to the directory") {
        let read = errors.read_line(&mut said).unwrap();
        assert!(read > 0, "it ended by itself: {said}");
    }
    interrupt(&mut child);
    errors.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(
        said.contains("the values of all pairs are left out"),
        "{said}"
    );
    assert!(folder.join("n.zarr/r").is_dir());
    assert!(!folder.join("n.zarr/full").exists());
    // The signal and the network: nothing temporary.
    assert_eq!(fs::read_dir(folder).unwrap().count(), 2);
    let about = json(folder, "info n.zarr");
    assert_eq!(about["windows"], 41, "{about}");
    assert_eq!(about["meta"]["complete"], true, "{about}");
}

#[test]
fn an_interrupted_model_map_or_sorter_leaves_the_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --out a.npz --neurons 10 --seconds 20 --tick 0.001",
    );
    done(
        folder,
        "train a.npz --out m.betz --filter 0.02:1 --folds 0 --ridge 1",
    );
    for options in ["--decoder auto", "--memory 4MiB --step 0.001 --folds 100"] {
        let train = format!("train a.npz --out m.betz {options}");
        interrupted(folder, &train, "m.betz", Moment::Beginning);
    }

    let values: Vec<f32> = (0..3000).map(|i| (i * 7919 % 1000) as f32).collect();
    let array = Array::F32(&[1000, 3], &values);
    write(&folder.join("data.npz"), &[("data", array)]).unwrap();
    let som = "som data.npz --map 20x20 --out map.npz --epochs";
    done(folder, &format!("{som} 2"));
    interrupted(
        folder,
        &format!("{som} 100000000"),
        "map.npz",
        Moment::Beginning,
    );

    crate::sorting::trained(folder);
    interrupted(
        folder,
        &format!("{} --epochs 100000000", crate::sorting::TRAIN),
        "s.betz",
        Moment::Beginning,
    );
}

#[test]
fn an_interrupted_recurrent_decoder_keeps_its_best_weights_beside_the_earlier_model() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(
        folder,
        "simulate --out a.npz --neurons 10 --seconds 60 --tick 0.001",
    );
    let train = "train a.npz --out m.betz --filter 0.02:1 --step 0.05 --folds 2 --decoder";
    done(folder, &format!("{train} linear"));
    let earlier = fs::read(folder.join("m.betz")).unwrap();
    let line = format!("{train} recurrent --layers 16 --epochs 20000");
    let mut child = spawned(folder, &line);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    // The search for bank and ridge has less than a fiftieth of the bar.
    let percent = |said: &str| -> Option<u32> {
        let line = said.lines().rfind(|line| line.starts_with("training: "))?;
        line["training: ".len()..].split(' ').next()?.parse().ok()
    };
    while percent(&said).is_none_or(|percent| percent < 3) {
        let read = errors.read_line(&mut said).unwrap();
        assert!(read > 0, "{line} ended by itself: {said}");
    }
    interrupt(&mut child);
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("partial result: m.betz.partial"), "{said}");
    assert!(said.contains("recurrent decoder: stopped"), "{said}");
    assert!(fs::read(folder.join("m.betz")).unwrap() == earlier);
    let partial = betz::model::Decoder::load(&folder.join("m.betz.partial")).unwrap();
    assert_eq!(partial.kind(), "recurrent");
}
