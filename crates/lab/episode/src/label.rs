//! Labels in an episode's text: bare, or in quotes if they would be misread.

use std::borrow::Cow;

use betz_base::error::{Error, Result};

/// `label` as an episode's text has it.
pub(super) fn written_label(label: &str) -> Cow<'_, str> {
    let bare = !label.is_empty()
        && !label.starts_with(['"', '#'])
        && !label.contains(char::is_whitespace)
        && find_edge(label).is_none();
    if bare {
        return Cow::Borrowed(label);
    }
    let mut text = String::from('"');
    for c in label.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            other => text.push(other),
        }
    }
    text.push('"');
    Cow::Owned(text)
}

/// The label that `text` begins with, and what follows it.
pub(super) fn read_label(text: &str) -> Result<(Cow<'_, str>, &str)> {
    match text.strip_prefix('"') {
        Some(quoted) => read_quoted(quoted).map(|(label, rest)| (Cow::Owned(label), rest)),
        None => {
            // A label ends at a blank, or at the beginning of an edge.
            let blank = text.find(char::is_whitespace).unwrap_or(text.len());
            let end = find_edge(&text[..blank]).unwrap_or(blank);
            Ok((Cow::Borrowed(&text[..end]), &text[end..]))
        }
    }
}

fn find_edge(text: &str) -> Option<usize> {
    let edges = [text.find("-("), text.find("->")];
    edges.into_iter().flatten().min()
}

/// The label whose opening quote is behind us.
fn read_quoted(text: &str) -> Result<(String, &str)> {
    let mut label = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let rest = &text[at + 1..];
                let ends = rest.is_empty()
                    || rest.starts_with(char::is_whitespace)
                    || find_edge(rest) == Some(0);
                if !ends {
                    return Err(Error::argument(format!(
                        "expected a blank or an edge after the label \"{label}\", got {rest:?}"
                    )));
                }
                return Ok((label, rest));
            }
            '\\' => label.push(match chars.next() {
                Some((_, c @ ('"' | '\\'))) => c,
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                other => {
                    let got = other.map_or_else(|| "the end".to_owned(), |(_, c)| format!("{c:?}"));
                    return Err(Error::argument(format!(
                        "label in quotes: expected one of \" \\ n r after a backslash, got {got}"
                    )));
                }
            }),
            other => label.push(other),
        }
    }
    Err(Error::argument(format!(
        "label \"{text}: expected a quote that closes it, got the end"
    )))
}
