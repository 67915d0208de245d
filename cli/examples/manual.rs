//! `cargo run --release -p betz-cli --features manual --example manual FOLDER`: writes into FOLDER the manual pages of
//! `betz` and of each of its commands (`man1/betz-train.1`), and completions for Bash, Zsh and fish.

use std::io::{Error, Result};
use std::path::PathBuf;

use clap_complete::Shell;

fn main() -> Result<()> {
    let folder = (std::env::args_os().nth(1))
        .map(PathBuf::from)
        .ok_or_else(|| Error::other("expected a folder: manual FOLDER"))?;
    let pages = folder.join("man1");
    std::fs::create_dir_all(&pages)?;
    let mut command = betz_cli::command();
    clap_mangen::generate_to(command.clone(), pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "betz", &folder)?;
    }
    Ok(())
}
