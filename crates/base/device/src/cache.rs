//! The user's cache folder.

use std::ffi::OsString;
use std::path::PathBuf;

/// `$BETZ_CACHE`, else `betz` in the user's cache folder; `None` when there is neither.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name))
}

/// [`folder`] where `variable` gives the environment's values. An empty one counts as not set, and so
/// does a relative `XDG_CACHE_HOME`, as the XDG base directory specification has it: the cache would
/// otherwise be in whatever folder the program was started from.
fn folder_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(folder) = set("BETZ_CACHE") {
        return Some(folder);
    }
    let user = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else {
        set("XDG_CACHE_HOME")
            .filter(|folder| folder.is_absolute())
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
    };
    user.map(|folder| folder.join("betz"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn empty_and_relative_folders_count_as_not_set() {
        for (betz, xdg, home, expected) in [
            ("/b", "/x", "/h", Some("/b")),
            ("b", "/x", "/h", Some("b")),
            ("", "/x", "/h", Some("/x/betz")),
            ("", "", "/h", Some("/h/.cache/betz")),
            ("", "x", "/h", Some("/h/.cache/betz")),
            ("", "", "", None),
        ] {
            let values = [
                ("BETZ_CACHE", betz),
                ("XDG_CACHE_HOME", xdg),
                ("HOME", home),
            ];
            let variable = |name: &str| {
                let found = values.iter().find(|v| v.0 == name);
                found.map(|v| OsString::from(v.1))
            };
            assert_eq!(folder_of(variable), expected.map(PathBuf::from));
        }
        assert_eq!(folder_of(|_| None), None);
    }
}
