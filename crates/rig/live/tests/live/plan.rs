use std::path::Path;

use betz_live::plan::{Feature, Plan, ReferencePlan, Sends, Span};

const SHORT: &str = r#"
[session]
model = "reach.betz"

[[source]]
name = "nsp"
from = "udp://0.0.0.0:5001"
channels = 96
microvolts = 0.25
"#;

fn parse(text: &str, changes: &[&str]) -> Result<Plan, String> {
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Plan::parse(text, Path::new("lab/session.toml"), &changes).map_err(|e| e.message().to_owned())
}

#[test]
fn a_short_plan_has_every_default_and_reads_back_as_it_was() {
    let plan = parse(SHORT, &[]).unwrap();
    assert_eq!(plan.voltage.reference, ReferencePlan::Median);
    assert_eq!(plan.model_path().unwrap(), Path::new("lab/reach.betz"));
    let again = parse(&plan.resolved().unwrap(), &[]).unwrap();
    assert_eq!(again.voltage, plan.voltage);
    assert_eq!(again.source, plan.source);
    assert_eq!(again.limits, plan.limits);
}

#[test]
fn lsl_and_brand_send_steps_unless_the_plan_says_samples() {
    for (from, default) in [
        ("lsl://a", Sends::Steps),
        ("brand://h:1?nickname=n", Sends::Steps),
        ("udp://h:1", Sends::Samples),
    ] {
        let from = format!("source.from={from}");
        let form = |changes: &[&str]| parse(SHORT, changes).map(|plan| plan.source().form());
        assert_eq!(form(&[&from]), Ok(default), "{from}");
        let samples = form(&[&from, "source.sends=samples"]);
        assert_eq!(samples, Ok(Sends::Samples), "{from}");
    }
}

#[test]
fn changes_of_the_command_line_win() {
    let changes = [
        "voltage.feature=sbp",
        "missing.bridge=2ms",
        "source.channels=32",
        "voltage.noise.track=\"1min\"",
        "outputs.to=[\"udp://127.0.0.1:5\"]",
    ];
    let plan = parse(SHORT, &changes).unwrap();
    assert_eq!(plan.voltage.feature, Feature::Sbp);
    assert_eq!(plan.missing.bridge, Span::from_seconds(0.002));
    assert_eq!(plan.source().channels, Some(32));
    assert_eq!(plan.voltage.noise.track, Span::from_seconds(60.0));
    assert_eq!(plan.outputs.to, ["udp://127.0.0.1:5"]);
    for change in [
        "voltage",
        "threshold=-4",
        "session.name.x=1",
        "outputs.nothing=1",
    ] {
        assert!(parse(SHORT, &[change]).is_err(), "{change}");
    }
}

#[test]
fn a_change_that_does_not_fit_is_named() {
    let changes = ["voltage.threshold=-4", "source.channels=x"];
    let refused = parse(SHORT, &changes).unwrap_err();
    assert!(
        refused.starts_with("--set source.channels=x: "),
        "{refused}"
    );
    for (change, words) in [
        ("voltage.noise=5s", "expected a table, such as { key = "),
        ("outputs.to=udp://127.0.0.1:5", "expected a list, such as ["),
        ("voltage.threshold=abc", "expected a number"),
        ("source.channels=-3", "expected a whole number, 0 or above"),
        ("voltage.feature=sbpp", "did you mean `sbp`?"),
        (
            "session.priority=fifo:100",
            "expected \"normal\", \"fifo:1\" to \"fifo:99\" (Linux), or \"realtime\" (Windows, macOS)",
        ),
        ("session.cores=0", "expected a list, such as ["),
    ] {
        let refused = parse(SHORT, &[change]).unwrap_err();
        assert!(
            refused.starts_with(&format!("--set {change}: ")) && refused.contains(words),
            "{refused}"
        );
    }
    let many = parse(SHORT, &["session.cores=[0, 1, 2, 3]"]).unwrap_err();
    assert!(
        many.contains("session.cores: expected at most 3 processors, of the loop, each source and the recorder; got 4"),
        "{many}"
    );
    // A key that the file lacks may come from the command line.
    let short = SHORT.replace("model = \"reach.betz\"", "");
    let plan = parse(&short, &["session.model=other.betz"]).unwrap();
    assert_eq!(plan.model_path().unwrap(), Path::new("lab/other.betz"));
}

#[test]
fn each_fault_is_refused_with_file_line_and_key() {
    for (more, place, words) in [
        (
            "[voltage]\nthreshold = 4.5",
            "line 11, voltage.threshold",
            "below 0",
        ),
        (
            "[voltage]\n\nband = [6000, 300]",
            "line 12, voltage.band",
            "0 < low < high",
        ),
        (
            "[voltage]\nrefrence = \"median\"",
            "line 11, voltage.refrence",
            "did you mean `reference`?",
        ),
        (
            "[voltage]\nreference = \"medan\"",
            "line 11, voltage.reference",
            "did you mean `median`?",
        ),
        (
            "[missing]\nbacklog = 0",
            "line 11, missing.backlog",
            "expected at least 1 step, got 0",
        ),
        (
            "[missing]\nbridge = 5",
            "line 11, missing.bridge",
            "a duration with its unit",
        ),
        (
            "[missing]\nbridge = \"5 parsecs\"",
            "line 11, missing.bridge",
            "a duration with its unit",
        ),
        (
            "[limits]\nlost = 3",
            "line 11, limits.lost",
            "a share from 0 to 1",
        ),
        (
            "[record]\nto = \"x\"\nreserve_mib = 1048577",
            "line 12, record.reserve_mib",
            "expected 0 to 1048576 MiB, got 1048577",
        ),
        (
            "[record]\nto = \"x\"\non_full = \"keepsmall\"",
            "line 12, record.on_full",
            "did you mean `keep-small`?",
        ),
        (
            "[record]\nto = \"x\"\nsegment_mib = 0",
            "line 12, record.segment_mib",
            "1 to 1048576",
        ),
        (
            "[recalibrate]\nmode = \"suggest\"\nwindow = \"60s\"",
            "line 12, recalibrate.window",
            "expected at least 100s, because a shorter window suggests nothing, got 60s",
        ),
        (
            "[learn]\nmode = \"apply\"\n[recalibrate]\nmode = \"apply\"",
            "line 13, recalibrate.mode",
            "expected \"off\" beside learn.mode",
        ),
        (
            "[voltage]\nat = \"settled\"",
            "line 11, voltage.at",
            "calibrate = \"0s\"",
        ),
        (
            "\n[[source]]\nname = \"b\"\nfrom = \"udp://h:1\"",
            "line 11, source.channels",
            "expected the number of channels of each source but the first",
        ),
        (
            "\n[[source]]\nname = \"b\"\nfrom = \"udp://h:1\"\nchannels = 0",
            "line 14, source.channels",
            "above 0",
        ),
        (
            "\n[[source]]\nname = \"b\"\nfrom = \"push\"\nchannels = 3",
            "line 13, source.from",
            "another address but for the first source",
        ),
        (
            "\n[[source]]\nname = \"nsp\"\nfrom = \"udp://h:1\"\nchannels = 3",
            "line 12, source.name",
            "a name of its own",
        ),
        (
            "[misssing]\n",
            "line 10, misssing",
            "did you mean `missing`?",
        ),
        ("[voltage]\nband = [", "line 11", ""),
    ] {
        let refused = parse(&format!("{SHORT}{more}"), &[]).unwrap_err();
        assert!(
            refused.starts_with(&format!("lab/session.toml, {place}")) && refused.contains(words),
            "{more}: {refused}"
        );
    }
    for (change, place) in [
        ("source.rate=0", "source.rate"),
        ("source.channels=0", "line 8, source.channels"),
        ("source.microvolts=-1", "line 9, source.microvolts"),
    ] {
        let refused = parse(SHORT, &[change]).unwrap_err();
        assert!(
            refused.contains(&format!("{place}: expected a number above 0, got ")),
            "{refused}"
        );
    }
    let refused = parse(SHORT, &["source.sends=samples", "source.from=zmq://a"]).unwrap_err();
    assert!(
        refused.contains("source.sends: expected \"steps\" for zmq://a"),
        "{refused}"
    );
    let refused = parse("[session]\nname = \"x\"\n", &[]).unwrap_err();
    assert!(refused.contains("missing field"), "{refused}");
}

#[test]
fn the_plans_of_three_rigs_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/rigs");
    // A package of this crate alone has none.
    if !folder.exists() {
        return;
    }
    let names = ["utah-cerebus", "neuropixels-spikeglx", "intan-rhx"];
    for name in names {
        let plan = Plan::read(&folder.join(format!("{name}.toml")), &[]).unwrap();
        let resolved = plan.resolved().unwrap();
        let again = Plan::parse(&resolved, Path::new("again.toml"), &[]).unwrap();
        assert_eq!(again.resolved().unwrap(), resolved);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), names.len());
}

/// The plans of the guide are what it says: whole, and the full one has every key with its default.
#[test]
fn the_plans_of_the_guide_are_read_and_show_the_defaults() {
    let guide = include_str!("../../../../../docs/live.md");
    let blocks: Vec<&str> = (guide.split("```toml\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .collect();
    let parse = |text: &str| Plan::parse(text, Path::new("guide.toml"), &[]).unwrap();
    let (shortest, full) = (parse(blocks[0]), parse(blocks[1]));
    let keys = |plan: &Plan| -> toml::Table { plan.resolved().unwrap().parse().unwrap() };
    let (mut defaults, mut shown) = (keys(&shortest), keys(&full));
    // Keys that the guide says have no default.
    let absent = [
        ("session", "model"),
        ("outputs", "clamp"),
        ("outputs", "slew"),
        ("outputs", "hold"),
        ("outputs", "deadline"),
        ("labels", "from"),
    ];
    for (section, key) in absent {
        for table in [&mut defaults, &mut shown] {
            table[section].as_table_mut().unwrap().remove(key);
        }
    }
    // `sends` is absent, and samples is what that means for this address.
    assert_eq!(full.source().form(), shortest.source().form());
    for key in ["source", "record"] {
        defaults.remove(key);
        shown.remove(key);
    }
    assert_eq!(shown, defaults);
    let with_record = format!("{}\n[record]\nto = \"recordings\"\n", blocks[0]);
    assert_eq!(full.record, parse(&with_record).record);
}

/// The other plans of the guide are parts: with what they leave out they are read, too.
#[test]
fn the_parts_of_plans_in_the_guide_are_read() {
    let guide = include_str!("../../../../../docs/live.md");
    let blocks = guide.split("```toml\n").skip(3);
    let parts: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    let session = "[session]\nmodel = \"reach.betz\"\n";
    let sources = "[[source]]\nname = \"nsp\"\nfrom = \"openephys://h:1\"\n\
                   [[source]]\nname = \"probe\"\nfrom = \"openephys://h:2\"\nchannels = 3\n";
    let record = "[record]\nto = \"recordings\"\n";
    let first = "[[source]]\nname = \"a\"\nfrom = \"udp://h:1\"\nchannels = 3\n";
    let mut found = [0; 3];
    for part in parts {
        let (kind, text) = match (part.contains("[session]"), part.contains("[[source]]")) {
            (true, _) => (0, format!("{part}{first}{record}")),
            (_, true) => (1, format!("{session}{part}{record}")),
            (false, false) => (2, format!("{session}{sources}{part}")),
        };
        found[kind] += 1;
        let read = Plan::parse(&text, Path::new("guide.toml"), &[]);
        assert!(read.is_ok(), "{text}\n{:?}", read.err());
    }
    assert_eq!(found, [1, 3, 1]);
}
