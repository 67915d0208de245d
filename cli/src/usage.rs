//! Wrong usage, in words for people.

use std::io::IsTerminal;
use std::process::ExitCode;

/// The standard library's words about a number that is none, and ours.
const WORDS: [(&str, &str); 6] = [
    ("invalid digit found in string", "expected a whole number"),
    (
        "cannot parse integer from empty string",
        "expected a whole number",
    ),
    (
        "number too large to fit in target type",
        "expected a smaller whole number",
    ),
    (
        "number too small to fit in target type",
        "expected a larger whole number",
    ),
    ("invalid float literal", "expected a number"),
    ("cannot parse float from empty string", "expected a number"),
];

/// Prints what is wrong with a command line, or the help that it asks for.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    let said = error.render();
    let said = match std::io::stderr().is_terminal() {
        true => said.ansi().to_string(),
        false => said.to_string(),
    };
    eprint!("{}", in_words(said));
    ExitCode::from(2)
}

/// `said` with what was expected in place of what the standard library found.
fn in_words(said: String) -> String {
    let mut said = WORDS
        .iter()
        .fold(said, |said, (from, to)| said.replace(from, to));
    // `7 is not in 1..=3`: the value is said before.
    const RANGE: &str = " is not in ";
    if let Some(at) = said.find(RANGE)
        && let Some(colon) = said[..at].rfind(": ")
    {
        said.replace_range(colon..at + RANGE.len(), ": expected one of ");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn what_was_expected_is_said() {
        for (from, to) in [
            (
                "error: invalid value 'x' for '--top <N>': invalid digit found in string\n\nFor",
                "error: invalid value 'x' for '--top <N>': expected a whole number\n\nFor",
            ),
            (
                "error: invalid value '9' for '--top <N>': 9 is not in 1..=3\n",
                "error: invalid value '9' for '--top <N>': expected one of 1..=3\n",
            ),
            (
                "error: unexpected argument '-i' found",
                "error: unexpected argument '-i' found",
            ),
        ] {
            assert_eq!(in_words(from.to_owned()), to);
        }
    }
}
