//! Places in a plan's file: the line of a key, and changes of the command line.

use std::fmt::Display;
use std::path::Path;

use betz_base::{Error, Result};

/// The lines of a plan, to find keys in.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Lines {
    text: String,
    /// True if nobody has written these lines: messages do not number them.
    unnumbered: bool,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            unnumbered: false,
        }
    }

    /// The lines of a table that a program has made.
    pub(super) fn of_table(text: &str) -> Self {
        Self {
            text: text.into(),
            unnumbered: true,
        }
    }

    /// The line of `key` in the table `section`, of which `before` others are left out, from 1; of the table's head if the key is
    /// not there.
    fn find(&self, section: &str, before: usize, key: &str) -> Option<usize> {
        let (mut head, mut inside, mut seen) = (None, false, 0);
        for (i, line) in self.text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if let Some(name) = line.strip_prefix('[') {
                if inside {
                    break;
                }
                if name.trim_matches(['[', ']', ' ']) == section {
                    inside = seen == before;
                    seen += 1;
                }
                head = inside.then_some(i + 1);
            } else if inside
                && !key.is_empty()
                && line.split('=').next().map(str::trim) == Some(key)
            {
                return Some(i + 1);
            }
        }
        head
    }

    /// `FILE, line N, SECTION.KEY: message`.
    pub(super) fn message(
        &self,
        file: &Path,
        section: &str,
        key: &str,
        message: impl Display,
    ) -> String {
        self.message_at(file, section, 0, key, message)
    }

    /// As [`Lines::message`], about the table `section` of which `before` others are left out.
    pub(super) fn message_at(
        &self,
        file: &Path,
        section: &str,
        before: usize,
        key: &str,
        message: impl Display,
    ) -> String {
        let line = match self.find(section, before, key) {
            Some(line) if !self.unnumbered => format!(", line {line}"),
            _ => String::new(),
        };
        let dot = if key.is_empty() { "" } else { "." };
        format!("{}{line}, {section}{dot}{key}: {message}", file.display())
    }

    /// The error of a file that TOML or the plan's fields refuse.
    pub(super) fn refuse(&self, file: &Path, error: &toml::de::Error) -> Error {
        let mut place = file.display().to_string();
        if let Some(span) = error.span() {
            let before = self.text.get(..span.start).unwrap_or("");
            let line = before.matches('\n').count();
            let name = |line: &str| line.trim().trim_matches(['[', ']', ' ']).to_owned();
            let here = self.text.lines().nth(line).unwrap_or("").trim();
            let section = (self.text.lines().take(line))
                .filter(|line| line.trim().starts_with('['))
                .last()
                .map(name);
            if !self.unnumbered {
                place += &format!(", line {}", line + 1);
            }
            match (section, here.split_once('=')) {
                _ if here.starts_with('[') => place += &format!(", {}", name(here)),
                (Some(section), Some((key, _))) => place += &format!(", {section}.{}", key.trim()),
                (None, Some((key, _))) => place += &format!(", {}", key.trim()),
                (Some(section), None) => place += &format!(", {section}"),
                (None, None) => {}
            }
        }
        Error::argument(format!("{place}: {}", words(error.message())))
    }
}

/// The message of a TOML error without names of Rust's types, and with the name that was perhaps meant.
pub(super) fn words(message: &str) -> String {
    let mut said = match message.rsplit_once("expected ") {
        None => message.to_owned(),
        Some((got, expected)) => {
            let kind = match expected {
                "f64" | "f32" => "a number",
                "usize" | "u64" | "u32" => "a whole number, 0 or above",
                "a sequence" => "a list, such as [\"a\", \"b\"]",
                other if other.starts_with("struct ") => "a table, such as { key = \"value\" }",
                other => other,
            };
            format!("{got}expected {kind}")
        }
    };
    if let Some(near) = nearest(message) {
        said += &format!("; did you mean `{near}`?");
    }
    said
}

/// The name nearest to the unknown one, of a message such as "unknown field `a`, expected one of `b`, `c`".
fn nearest(message: &str) -> Option<String> {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (unknown, known) = names.split_first()?;
    message.starts_with("unknown").then_some(())?;
    let likeness = |name: &&&str| strsim::jaro_winkler(name, unknown);
    (known.iter())
        .filter(|name| likeness(name) > 0.75)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .map(|name| (*name).to_owned())
}

/// Applies `key.key=value`; of a list of tables, such as `source`, to its first.
pub(super) fn set(table: &mut toml::Table, change: &str) -> Result<()> {
    let refuse = |got: &str| {
        Error::argument(format!(
            "--set {change}: expected a key and a value, such as voltage.threshold=-4, got {got}"
        ))
    };
    let (path, text) = change.split_once('=').ok_or_else(|| refuse("no ="))?;
    // A value that is no TOML is a string, so that no quotes have to be quoted.
    let value = (toml::from_str::<toml::Table>(&format!("value = {text}")).ok())
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.into()));
    let mut at = table;
    let (parents, key) = path
        .trim()
        .rsplit_once('.')
        .ok_or_else(|| refuse("no section"))?;
    for parent in parents.split('.') {
        let next = (at.entry(parent)).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = match next {
            toml::Value::Table(table) => table,
            toml::Value::Array(list) => match list.first_mut() {
                Some(toml::Value::Table(table)) => table,
                _ => return Err(refuse("a key inside a list of values")),
            },
            _ => return Err(refuse("a key inside a value")),
        };
    }
    at.insert(key.into(), value);
    Ok(())
}
