//! `betz run` and `betz record`: from a simulated rig to its replay, and plans of files.

use std::path::{Path, PathBuf};

use crate::program::{any_model, betz, fails, json, refused, spawned, terminate};

/// Trains on a minute of eight electrodes and runs for two seconds, recorded; however busy the machine is, no step is made
/// without data.
fn recorded(folder: &Path) -> (serde_json::Value, PathBuf) {
    let line = "run --simulate --seconds 2 --set source.channels=8 --set record.to=recordings \
                --set missing.stale_after=1h --set missing.backlog=1000000";
    let told = json(folder, line);
    let path = PathBuf::from(told["folder"].as_str().unwrap());
    (told, path)
}

#[test]
fn a_simulated_session_is_recorded_checked_and_replayed_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (told, path) = recorded(folder);
    let steps = told["input"]["steps"].as_u64().unwrap();
    assert!(
        steps > 0 && told["input"]["lost"] == 0 && told["input"]["stale"] == 0,
        "{told}"
    );
    assert_eq!(told["r2"].as_array().unwrap().len(), 2);
    let path = path.display();

    let checked = json(folder, &format!("record check {path}"));
    assert!(
        checked["ended"] == true && checked["places"] == 0,
        "{checked}"
    );
    let replayed = json(folder, &format!("run --replay {path}"));
    assert!(
        replayed["equal"] == true && replayed["compared"] == steps,
        "{replayed}"
    );
    assert_eq!(replayed.get("relearned"), None);
    fails(
        folder,
        &format!("run --replay {path} --relearn"),
        "expected the recording of a session with a trainer (learn.mode)",
    );
    let bins = json(
        folder,
        &format!("record bins {path} --step 0.02 --out bins.npz"),
    );
    assert_eq!(bins["channels"], 8);
    assert!(bins["labels"].as_u64().unwrap() > 0, "{bins}");

    another_front_end(folder, &path.to_string());

    // A bit of the middle: told by both.
    let segment = folder.join(format!("{path}/000000.blog"));
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    fails(folder, &format!("record check {path}"), "got a damaged one");
    let replayed = json(folder, &format!("run --replay {path}"));
    assert!(
        replayed["equal"] == false && replayed["damage"]["places"] == 1,
        "{replayed}"
    );

    plans(folder, &format!("{path}/model.betz"));
}

/// Bins of another front end are those of a session that had it, whose source is the recorded voltage.
fn another_front_end(folder: &Path, path: &str) {
    json(
        folder,
        &format!("record export {path} --to flat --out voltage"),
    );
    let bins = |of: &str, set: &str, out: &str| {
        json(folder, &format!("record bins {of} {set} --out {out}"));
        betz::recording::Recording::read_npz(&folder.join(out)).unwrap()
    };
    let usual = bins(path, "", "usual.npz");
    for (name, front) in [
        ("power", "--set voltage.feature=sbp"),
        (
            "low",
            "--set voltage.threshold=-3 --set voltage.noise.calibrate=0.5s --set voltage.reference=none",
        ),
    ] {
        // It only records: it has no model, whose front end would be another.
        let text = format!(
            "[session]\nstep = \"20ms\"\n[[source]]\nname = \"file\"\nmicrovolts = 0.25\n\
             from = \"pipe:voltage/rig.dat?channels=8&rate=30000\"\nchannels = 8\n\
             [record]\nto = \"of_{name}\"\n[missing]\nstale_after = \"1h\"\nbacklog = 1000000\n"
        );
        std::fs::write(folder.join("front.toml"), text).unwrap();
        let told = json(
            folder,
            &format!("run front.toml {front} --set limits.late_steps=1"),
        );
        let of = told["folder"].as_str().unwrap();
        let expected = bins(of, "", &format!("expected_{name}.npz"));
        let made = bins(path, front, &format!("made_{name}.npz"));
        assert_eq!(made.spikes, expected.spikes, "{name}");
        assert_eq!((made.form, &made.meta), (expected.form, &expected.meta));
        assert_ne!(made.spikes, usual.spikes);
    }
    // With the threshold alone the noise is the recorded one, and nothing has to be measured again.
    let lower = bins(path, "--set voltage.threshold=-3.5", "lower.npz");
    assert_eq!(lower.segments, usual.segments);
    let count = |of: &betz::recording::Recording| of.spikes.weights.iter().sum::<f32>();
    assert!(count(&lower) > count(&usual));
    for (set, words) in [
        ("missing.bridge=1ms", "expected a key of [voltage]"),
        ("voltage.threshold=4", "voltage.threshold: expected"),
        ("voltage.feature=units", "voltage.sorter: expected a sorter"),
        ("voltage.sorter=none.betz", "none.betz"),
    ] {
        fails(
            folder,
            &format!("record bins {path} --set {set} --out none.npz"),
            words,
        );
    }
}

/// Plans with the model of the session above.
fn plans(folder: &Path, model: &str) {
    let plan = |name: &str, more: &str| {
        let text = format!(
            "[session]\nmodel = {model:?}\n[[source]]\nname = \"file\"\nmicrovolts = 0.25\n\
             from = \"pipe:voltage.raw?channels=8&rate=30000\"\n{more}"
        );
        std::fs::write(folder.join(name), text).unwrap();
    };
    // A second of silence: the noise is still being measured, so that every step is without data.
    std::fs::write(folder.join("voltage.raw"), vec![0u8; 2 * 8 * 30_000]).unwrap();
    plan("short.toml", "");
    let output = betz(folder, "run short.toml --json");
    assert_eq!(
        output.status.code(),
        Some(3),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["input"]["steps"], &told["input"]["stale"]),
        (&50.into(), &50.into())
    );
    assert_eq!(told["crossed"].as_array().unwrap().len(), 1);

    let checked = json(folder, "run short.toml --check");
    assert!(
        checked["lines"]
            .to_string()
            .contains("8 channels at 30000 rows"),
        "{checked}"
    );

    recorded_without_a_model(folder);

    for (more, words) in [
        (
            "[voltage]\nthreshold = 4.5\n",
            "odd.toml, line 8, voltage.threshold: expected",
        ),
        (
            "[missing]\nbridge = 5\n",
            "odd.toml, line 8, missing.bridge: ",
        ),
        (
            "[outputs]\nslew = [1]\n",
            "odd.toml, line 8, outputs.slew: expected 2 entries",
        ),
        ("[outputs]\ntoo = []\n", "did you mean `to`?"),
    ] {
        plan("odd.toml", more);
        refused(folder, "run odd.toml", 2, words);
        refused(folder, "run odd.toml --check", 2, words);
    }
    refused(
        folder,
        "run short.toml --set source.channels=x",
        2,
        "channels",
    );
    refused(folder, "run --replay nowhere", 1, "nowhere");
    refused(folder, "run --replay short.toml", 2, "betz decode MODEL");
    refused(folder, "run --simulate --relearn", 2, "--relearn");
    std::fs::create_dir(folder.join("empty")).unwrap();
    refused(
        folder,
        "run --replay empty",
        1,
        "expected a folder that `betz run` recorded",
    );
    refused(
        folder,
        "record check empty",
        1,
        "expected a folder that `betz run` recorded",
    );
}

/// A first recording needs no model.
fn recorded_without_a_model(folder: &Path) {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 24) as i16 - 128).to_le_bytes()
    });
    let voltage: Vec<u8> = noise.take(2 * 8 * 30_000).flatten().collect();
    std::fs::write(folder.join("noise.raw"), voltage).unwrap();
    let plan = "[session]\n[[source]]\nname = \"file\"\nmicrovolts = 0.25\nchannels = 8\n\
                from = \"pipe:noise.raw?channels=8&rate=30000\"\n\
                [voltage]\nnoise = { calibrate = \"1s\", track = \"30s\" }\n\
                [record]\nto = \"bare\"\n";
    std::fs::write(folder.join("bare.toml"), plan).unwrap();
    json(folder, "run bare.toml --check");
    refused(folder, "run bare.toml --simulate", 2, "session.model");
    let told = json(
        folder,
        "run bare.toml --set missing.stale_after=1h --set missing.backlog=1000000",
    );
    assert_eq!(told["input"]["steps"], 100);
    let path = told["folder"].as_str().unwrap();
    let bins = json(folder, &format!("record bins {path} --out bare.npz"));
    assert_eq!(bins["channels"], 8);
}

/// A session with the emulated `device` has steps, and its recording is replayed to the bit.
fn is_heard(folder: &Path, device: &str) {
    let told = json(
        folder,
        &format!(
            "run --simulate={device} --seconds 2 --set source.channels=8 --set record.to={device} \
             --set missing.stale_after=1h --set missing.backlog=1000000 --set limits.lost=1"
        ),
    );
    let steps = told["input"]["steps"].as_u64().unwrap();
    assert!(steps > 0, "{device}: {told}");
    assert_eq!(told["r2"].as_array().unwrap().len(), 2, "{device}");
    let path = PathBuf::from(told["folder"].as_str().unwrap());
    let plan = std::fs::read_to_string(folder.join(&path).join("resolved.toml")).unwrap();
    assert!(plan.contains(&format!("from = \"{device}://")), "{plan}");
    let replayed = json(folder, &format!("run --replay {}", path.display()));
    assert!(
        replayed["equal"] == true && replayed["compared"] == steps,
        "{device}: {replayed}"
    );
}

#[test]
fn the_simulated_rig_is_heard_by_the_protocol_of_every_device() {
    let folder = tempfile::tempdir().unwrap();
    let devices = [
        "brand",
        "cerebus",
        "openephys",
        "rhx",
        "spikeglx",
        "synapse",
        "udp",
    ];
    let shared = cfg!(target_os = "linux").then_some("shm");
    // A machine need not have liblsl.
    let lsl = std::env::var_os("BETZ_LSL").map(|_| "lsl");
    let all: Vec<_> = devices.into_iter().chain(shared).chain(lsl).collect();
    // Two at a time: each trains a model and has a dozen threads.
    for two in all.chunks(2) {
        std::thread::scope(|scope| {
            for device in two {
                scope.spawn(|| is_heard(folder.path(), device));
            }
        });
    }
    refused(folder.path(), "run --simulate=nothing", 2, "cerebus");
}

#[test]
fn sigterm_ends_a_session_with_a_complete_recording() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "run --simulate --json --set source.channels=8 --set record.to=recordings \
                --set missing.stale_after=1h --set missing.backlog=1000000 --set limits.lost=1";
    let mut child = spawned(folder, line);
    // Once some seconds of it are recorded.
    let path = loop {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        let runs = std::fs::read_dir(folder.join("recordings"))
            .into_iter()
            .flatten();
        let path = runs.map(|run| run.unwrap().path()).next();
        let segment = path.as_ref().map(|p| p.join("000000.blog"));
        if segment.is_some_and(|s| s.metadata().is_ok_and(|m| m.len() > 4_000_000)) {
            break path.unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    terminate(&mut child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["input"]["steps"].as_u64().unwrap() > 0, "{told}");
    let checked = json(folder, &format!("record check {}", path.display()));
    assert!(
        checked["ended"] == true && checked["places"] == 0,
        "{checked}"
    );

    // The model keeps its front end through `betz record bins` and `betz train`.
    let path = path.display();
    json(folder, &format!("record bins {path} --out bins.npz"));
    json(
        folder,
        "train bins.npz --step 0.02 --filter 0.1:1 --folds 0 --ridge 1 --out bins.betz",
    );
    std::fs::write(folder.join("voltage.raw"), vec![0u8; 2 * 8 * 30_000]).unwrap();
    let plan = "[session]\nmodel = \"bins.betz\"\n[[source]]\nname = \"file\"\nmicrovolts = 0.25\n\
                from = \"pipe:voltage.raw?channels=8&rate=30000\"\n";
    std::fs::write(folder.join("own.toml"), plan).unwrap();
    json(folder, "run own.toml --check");
    // The noise is measured for longer than the file lasts: no step has data.
    let output = betz(folder, "run own.toml");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("limit crossed: limits.late_steps"), "{told}");
    for command in [
        "run own.toml --set voltage.threshold=-4",
        "run own.toml --check --set voltage.threshold=-4",
    ] {
        refused(
            folder,
            command,
            2,
            "voltage.threshold: expected -4.5, which the model was trained on, got -4",
        );
    }
}

#[test]
fn a_source_that_never_came_is_a_failure_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    any_model(folder);
    let plan = "[session]\nmodel = \"any.betz\"\n[[source]]\nname = \"nsp\"\nmicrovolts = 0.25\nchannels = 8\n\
                rate = 30000\nfrom = \"udp://127.0.0.1:0\"\n";
    std::fs::write(folder.join("silent.toml"), plan).unwrap();
    let words = "source `nsp`: expected blocks from udp://127.0.0.1:0, got none in ";
    fails(folder, "run silent.toml --seconds 0.2", words);
    refused(folder, "run silent.toml --require 0.2", 1, words);
    for command in ["run silent.toml", "run silent.toml --check"] {
        let words =
            "session.model: expected a model of the 9 channels of the source `nsp`, got one of 8";
        refused(
            folder,
            &format!("{command} --set source.channels=9"),
            2,
            words,
        );
    }
    let words = "--seconds: expected seconds, got ";
    refused(folder, "run silent.toml --seconds=-1", 2, words);
    refused(folder, "run silent.toml --seconds nan", 2, words);
}

#[test]
fn a_session_that_learned_is_replayed_with_its_trainer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "run --simulate --seconds 4 --set learn.mode=apply --set learn.batch=2 \
                --set record.to=rec --set source.channels=8 --set missing.stale_after=1h --set missing.backlog=1000000";
    let told = json(folder, line);
    let path = told["folder"].as_str().unwrap();
    let again = json(folder, &format!("run --replay {path} --relearn"));
    assert_eq!(again["equal"], true, "{again}");
    let relearned = &again["relearned"];
    assert!(relearned["trials"].as_u64().unwrap() >= 2, "{again}");
    assert_eq!(
        (&relearned["equal"], &relearned["other"]),
        (&told["swapped"], &0.into())
    );
}

#[test]
fn a_running_session_is_controlled_over_its_socket_with_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "run --simulate --seconds 600 --set source.channels=8 --set record.to=recordings --ctl s.ctl --json";
    let mut child = spawned(folder, line);
    let place = folder.join("s.ctl");
    // It is there before the first step.
    let is_decoding = || {
        let told = betz(folder, "ctl s.ctl health --json");
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        told["step"].as_u64().is_some_and(|step| step > 5)
    };
    while !(place.exists() && is_decoding()) {
        assert!(child.try_wait().unwrap().is_none(), "ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = place.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for order in ["mark half", "trial begin", "label 0.25 -0.5", "trial end"] {
        let told = json(folder, &format!("ctl s.ctl {order}"));
        assert!(told["step"].as_u64().is_some(), "{order}: {told}");
    }
    fails(
        folder,
        "ctl s.ctl label 1",
        "expected 2 values, one per output, got 1",
    );
    fails(
        folder,
        "ctl s.ctl accept",
        "expected a model that waits, got none",
    );
    fails(folder, "ctl s.ctl roll-back", "roll back");
    // Another token is refused.
    let text = std::fs::read_to_string(&place).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    other["token"] = "0".repeat(64).into();
    std::fs::write(folder.join("other.ctl"), other.to_string()).unwrap();
    fails(
        folder,
        "ctl other.ctl stop",
        "expected the token of the session's file",
    );
    json(folder, "ctl s.ctl stop");
    let output = child.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["notes"]["marks"], &told["notes"]["trials"]),
        (&1.into(), &2.into())
    );
    let checked = json(
        folder,
        &format!("record check {}", told["folder"].as_str().unwrap()),
    );
    assert_eq!(checked["ended"], true);
    assert!(!place.exists());
    fails(
        folder,
        "ctl other.ctl health",
        "expected a session that runs, got none",
    );
}

/// A network of tuned neurons and of others, with steps of half a millisecond.
const TUNED: &str = r#"{"step_ms": 0.5, "seed": 3, "populations": [
  {"name": "m1", "neurons": 40, "start_mv": {"low": -65, "high": -50}, "poisson": {"rate_hz": 1000, "weight": 40},
   "tuning": {"gain_pa": {"low": 200, "high": 500}, "offset_pa": {"low": 200, "high": 500}}},
  {"name": "i", "neurons": 10, "poisson": {"rate_hz": 2000, "weight": 60}}],
 "projections": [
  {"source": "m1", "target": "i", "rule": {"fixed_in": {"count": 10}}, "weight": 60, "delay_ms": 1.5},
  {"source": "i", "target": "m1", "rule": {"fixed_in": {"count": 4}}, "weight": -80, "delay_ms": 1.5}]}"#;

/// The spikes of a session on a network are those of `betz simulate` of the same network after the minute of training.
#[test]
fn a_network_is_the_rig_of_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("net.json"), TUNED).unwrap();
    let told = json(
        folder,
        "run --simulate=net.json --seconds 2 --populations i,m1 --set source.channels=20 --set record.to=recordings \
         --set missing.stale_after=1h --set missing.backlog=1000000",
    );
    let steps = told["input"]["steps"].as_u64().unwrap();
    assert!(steps > 0 && told["input"]["lost"] == 0, "{told}");
    // The movement is found, and by no means by chance: the mean of both outputs.
    let r2: Vec<f64> = (told["r2"].as_array().unwrap().iter())
        .filter_map(serde_json::Value::as_f64)
        .collect();
    assert!(r2.len() == 2 && r2[0] + r2[1] > 0.6, "{r2:?}");
    let path = told["folder"].as_str().unwrap();
    json(
        folder,
        &format!("record bins {path} --step 0.02 --out bins.npz"),
    );
    let bins = betz::recording::Recording::read_npz(&folder.join("bins.npz")).unwrap();
    assert_eq!(bins.channel_names.len(), 20);

    json(
        folder,
        "simulate --spec net.json --seconds 65 --out whole.npz",
    );
    let whole = betz::recording::Recording::read_npz(&folder.join("whole.npz")).unwrap();
    assert_eq!(whole.behavior.as_ref().unwrap().outputs.len(), 2);
    // Steps of 20 ms from the end of training on; neuron 40 of the network is the first of i, and 0 the first of m1.
    let mut expected = vec![0.0f32; bins.ticks as usize * 20];
    for (tick, &neuron) in whole.spikes.ticks.iter().zip(&whole.spikes.channels) {
        let place = if neuron >= 40 {
            neuron - 40
        } else {
            neuron + 10
        };
        let step = (tick - 120_000).div_euclid(40);
        if (0..bins.ticks).contains(&step) {
            expected[step as usize * 20 + place as usize % 20] += 1.0;
        }
    }
    let mut heard = vec![0.0f32; expected.len()];
    let all = (bins.spikes.ticks.iter()).zip(&bins.spikes.channels);
    for ((tick, channel), count) in all.zip(&bins.spikes.weights) {
        heard[*tick as usize * 20 + *channel as usize] += count;
    }
    assert!(heard.iter().sum::<f32>() > 100.0);
    assert_eq!(heard, expected);

    // Another movement: the same network reads it.
    std::fs::write(folder.join("still.csv"), "seconds,x,y\n0,0,0\n").unwrap();
    let still = json(
        folder,
        "simulate --spec net.json --seconds 1 --movement still.csv",
    );
    let moved = json(folder, "simulate --spec net.json --seconds 1");
    assert_ne!(still["hash"], moved["hash"]);
}

#[test]
fn networks_that_are_no_rig_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let plain = r#"{"step_ms": 0.5, "populations": [{"name": "m1", "neurons": 4}]}"#;
    std::fs::write(folder.join("plain.json"), plain).unwrap();
    std::fs::write(folder.join("net.json"), TUNED).unwrap();
    let slow = r#"{"step_ms": 25, "populations": [
        {"name": "m1", "neurons": 4, "neuron": "izhikevich", "tuning": {"gain_pa": 300}}]}"#;
    std::fs::write(folder.join("slow.json"), slow).unwrap();
    std::fs::write(folder.join("odd.csv"), "0,1,2\n1,2\n").unwrap();
    std::fs::write(folder.join("far.csv"), "0,1e38,0\n").unwrap();
    for (line, words) in [
        (
            "run --simulate=plain.json",
            "--simulate=plain.json: expected a population that a movement drives",
        ),
        ("run --simulate=none.json", "none.json"),
        (
            "run --simulate=slow.json",
            "--simulate=slow.json: step_ms: expected at most 20, the decoder's step, got 25",
        ),
        (
            "run --simulate=net.json --populations m2",
            "--populations: no population \"m2\" among [\"m1\", \"i\"]",
        ),
        (
            "run --simulate=net.json --populations m1,i,m1",
            "--populations: expected each population once, got \"m1\" twice",
        ),
        (
            "run --simulate net.json",
            "expected a plan (TOML), got net.json; a spiking network is run by --simulate=net.json",
        ),
        (
            "run net.json",
            "expected a plan (TOML), got net.json; a spiking network is run by --simulate=net.json",
        ),
        ("run --simulate=none", "FILE.json"),
        ("run --simulate=NONE.JSON", "NONE.JSON"),
        (
            "simulate --spec net.json --movement far.csv",
            "population \"m1\" at step 0: currents: expected −1e30 to 1e30 pA, got",
        ),
        (
            "run --simulate=net.json --movement odd.csv",
            "odd.csv: line 2: expected three finite numbers",
        ),
        (
            "run --simulate --populations m1",
            "expected --simulate=FILE.json with a spiking network",
        ),
        (
            "simulate --spec plain.json --movement odd.csv",
            "odd.csv: line 2: expected three finite numbers",
        ),
        (
            "simulate --spec net.json --stimulus m1=odd.csv",
            "--stimulus: expected a population without \"tuning\"",
        ),
    ] {
        fails(folder, line, words);
    }
    std::fs::write(folder.join("still.csv"), "0,0,0\n").unwrap();
    fails(
        folder,
        "simulate --spec plain.json --movement still.csv",
        "--movement: movement: expected a population with \"tuning\", got none",
    );
}
