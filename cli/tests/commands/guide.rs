//! The commands of docs/guide.md, docs/tutorial.md and docs/live.md run, and give the results that the pages promise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Blocks of shell commands of a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

/// A shell in `folder` that finds this build's `betz`.
fn shell(folder: &Path, script: &str) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_betz"));
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-euc", script])
        .current_dir(folder)
        .env(
            "PATH",
            format!("{}:{path}", binary.parent().unwrap().display()),
        )
        .env("BETZ_CACHE", folder.join("cache"));
    command
}

/// Runs a block, and returns its standard output.
fn run(folder: &Path, block: &str) -> String {
    let output = shell(folder, block).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{block}\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The output of a block of commands as the page shows it; `None` if it shows none.
fn reply<'a>(page: &'a str, block: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("```sh\n{block}```\n"))?;
    rest.strip_prefix("```text\n")?.split("```").next()
}

/// Every line of a page's reply was printed. Times are of the machine that printed them.
fn assert_printed(reply: &str, output: &str) {
    let depends = [" s in all", "latency", "misses"];
    for line in reply.lines() {
        let is_timed = depends.iter().any(|words| line.contains(words));
        assert!(
            is_timed || output.lines().any(|printed| printed == line),
            "the page says\n{line}\nof\n{output}"
        );
    }
}

#[test]
fn every_command_of_the_page_on_exploration_runs() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(include_str!("../../../docs/exploration.md"));
    assert!(blocks.len() >= 6, "{} blocks", blocks.len());
    for block in blocks {
        run(folder.path(), block);
    }
    for name in ["events.svg", "tuning.svg", "kinds.svg"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.starts_with("<!-- drawn by betz -->"), "{name}");
    }
    let decoded = std::fs::read_to_string(folder.path().join("decoded.csv")).unwrap();
    assert!(decoded.starts_with("step,start_seconds,end_seconds,segment,x,y\n"));
}

#[test]
fn every_command_of_the_guide_runs() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(include_str!("../../../docs/guide.md"));
    assert!(blocks.len() >= 4, "{} blocks", blocks.len());
    for block in blocks {
        run(folder.path(), block);
    }
    for (file, begins) in [
        ("arm.svg", "<!-- drawn by betz -->"),
        ("decoded.svg", "<!-- drawn by betz -->"),
        (
            "decoded.csv",
            "step,start_seconds,end_seconds,x,x_true,y,y_true",
        ),
    ] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.starts_with(begins), "{file}");
    }
    assert!(folder.path().join("arm-weights.npz").exists());
}

#[test]
fn every_command_of_the_tutorial_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut scores = Vec::new();
    let mut watched = false;
    let mut replies = 0;
    let page = include_str!("../../../docs/tutorial.md");
    for block in blocks(page) {
        if block.starts_with("cargo install") {
            continue;
        }
        if block.starts_with("betz monitor") {
            // The page is served until Ctrl-C: its address is enough.
            let block = format!("exec {} --no-open --json", block.trim());
            let mut server = shell(folder.path(), &block)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            let mut lines = BufReader::new(server.stdout.take().unwrap());
            lines.read_line(&mut line).unwrap();
            server.kill().unwrap();
            server.wait().unwrap();
            assert!(line.contains("http://127.0.0.1:"), "{line}");
            watched = true;
            continue;
        }
        let output = run(folder.path(), block);
        if let Some(reply) = reply(page, block) {
            assert_printed(reply, &output);
            replies += 1;
        }
        if block.starts_with("betz evaluate arm.betz") || block.starts_with("betz stream") {
            let rows = output.lines().filter(|l| l.starts_with(['x', 'y']));
            scores.push(rows.take(2).map(str::to_owned).collect::<Vec<_>>());
        }
    }
    assert!(watched);
    assert_eq!(replies, 4);
    // The page says that batch and stream give the same scores, and which.
    assert_eq!(scores.len(), 2);
    assert_eq!(scores[0], scores[1]);
    assert!(scores[0][0].contains("0.9027"), "{:?}", scores[0]);
}

/// Commands that a page has within its text, with `FOLDER` in them.
fn commands_with_a_folder(page: &str) -> Vec<&str> {
    let mut commands: Vec<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("betz ") && text.contains("FOLDER"))
        .collect();
    commands.sort_unstable();
    commands.dedup();
    commands
}

/// A process that ends with this.
struct Device(Child);

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_of_the_page_on_sessions_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let page = include_str!("../../../docs/live.md");
    let blocks = blocks(page);
    // A shorter session than the page's: it runs in real time.
    assert!(blocks[0].contains("--seconds 20"), "{}", blocks[0]);
    let report = run(folder, &blocks[0].replace("--seconds 20", "--seconds 5"));
    assert!(report.contains("R²"), "{report}");

    // A recording of the same size as the page's plan, with labels and a trainer.
    let told = run(
        folder,
        "betz run --simulate --seconds 4 --set record.to=recordings --set learn.mode=watch --json",
    );
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let recorded = told["folder"].as_str().unwrap();
    let commands = commands_with_a_folder(page);
    assert!(commands.len() >= 5, "{commands:?}");
    for command in &commands {
        let with_output = match command.ends_with("--out FOLDER") {
            true => command
                .replacen("FOLDER", recorded, 1)
                .replace("FOLDER", "flat"),
            false => command.replace("FOLDER", recorded),
        };
        run(folder, &with_output);
    }
    run(
        folder,
        "betz train reach.npz --decoder linear --retain --out reach.betz",
    );

    // The shortest plan, on the device that it is for.
    let plan = page.split("```toml\n").nth(1).unwrap();
    let plan = plan.split("```").next().unwrap();
    std::fs::write(folder.join("session.toml"), plan).unwrap();
    std::fs::copy(folder.join("reach.betz"), folder.join("new.betz")).unwrap();
    let device = shell(folder, "exec betz emulate cerebus --channels 96")
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _device = Device(device);
    let check = shell(folder, "betz run session.toml --check").output();
    let check = check.unwrap();
    let errors = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{errors}");
    let mut session = shell(
        folder,
        "exec betz run session.toml --set missing.bridge=2ms --ctl session.ctl --json",
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    while !folder.join("session.ctl").exists() {
        assert!(session.try_wait().unwrap().is_none(), "the session is over");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let control = blocks.iter().find(|block| block.starts_with("betz ctl"));
    run(folder, control.unwrap());
    let output = session.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&told["notes"]["marks"], &told["swapped"]),
        (&1.into(), &1.into())
    );
}
