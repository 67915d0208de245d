//! A kernel file's lines, code apart from comments, and the mistakes found in them.

use std::collections::BTreeMap;
use std::fmt;

/// A mistake in a kernel file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The file's name.
    pub(crate) file: String,
    /// Line, from 1 on.
    pub(crate) line: usize,
    /// The expected and the found text.
    pub(crate) message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernels/{}:{}: {}", self.file, self.line, self.message)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Mistake>;

/// A file's code and comments, line by line.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// The file's name.
    pub(crate) name: String,
    /// Code and comment of each line, without blanks around them.
    pub(crate) lines: Vec<(String, Option<String>)>,
}

impl Text {
    /// Splits `text` into code and comments.
    ///
    /// # Errors
    /// A [`Mistake`] for a comment that is not one of `//`, an odd number of quotes, or a tab.
    pub(crate) fn new(name: &str, text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let (code, comment) = match line.split_once("//") {
                Some((code, comment)) => (code, Some(comment.trim_end().to_owned())),
                None => (line, None),
            };
            let refuse = |message: &str| mistake(name, at, message.to_owned());
            if line.contains("/*") || line.contains("*/") {
                return refuse("expected comments of `//` only, found `/*` or `*/`");
            }
            if line.contains('\t') {
                return refuse("expected blanks, found a tab");
            }
            if code.matches('"').count() % 2 == 1 {
                return refuse("expected quotes that end before a comment, found an odd number");
            }
            if comment.as_ref().is_some_and(|c| c.ends_with('\\')) {
                return refuse("expected a comment of one line, found `\\` at its end");
            }
            lines.push((code.trim().to_owned(), comment));
        }
        Ok(Self {
            name: name.to_owned(),
            lines,
        })
    }

    /// The code alone, one line for each of the file; `behind` adds to the lines of these indices.
    pub(crate) fn code(&self, behind: &BTreeMap<usize, String>) -> String {
        let mut code = String::new();
        for (at, (line, _)) in self.lines.iter().enumerate() {
            code += line;
            code += behind.get(&at).map_or("", String::as_str);
            code.push('\n');
        }
        code
    }

    pub(crate) fn mistake<T>(&self, at: usize, message: impl Into<String>) -> Result<T> {
        mistake(&self.name, at, message.into())
    }

    /// Names of the files that it includes, and where.
    pub(crate) fn includes(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(at, (code, _))| {
            let name = code.strip_prefix("#include \"")?;
            Some((at, name.trim_end_matches('"')))
        })
    }

    /// Text of the lines `//: key …` of the file.
    pub(crate) fn notes<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let comments = self
            .lines
            .iter()
            .filter_map(|(_, comment)| comment.as_deref());
        comments.filter_map(move |comment| {
            comment
                .strip_prefix(": ")?
                .strip_prefix(key)?
                .strip_prefix(' ')
        })
    }

    /// The lines that are comments only, directly before line `at`; their index, and their text.
    pub(crate) fn comments_before(&self, at: usize) -> (usize, Vec<&str>) {
        let alone = |line: &(String, Option<String>)| line.0.is_empty() && line.1.is_some();
        let before = &self.lines[..at];
        let count = before.iter().rev().take_while(|line| alone(line)).count();
        let comments = before[at - count..].iter();
        (
            at - count,
            comments.filter_map(|line| line.1.as_deref()).collect(),
        )
    }
}

fn mistake<T>(file: &str, at: usize, message: String) -> Result<T> {
    Err(Mistake {
        file: file.to_owned(),
        line: at + 1,
        message,
    })
}
