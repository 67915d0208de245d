//! The user's cache folder.

use std::path::PathBuf;

/// `$BETZ_CACHE`, else `betz` in the user's cache folder; `None` when there is neither.
pub(crate) fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("BETZ_CACHE") {
        return Some(PathBuf::from(folder));
    }
    let user = if cfg!(windows) {
        std::env::var_os("LOCALAPPDATA").map(PathBuf::from)
    } else {
        std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
    };
    user.map(|folder| folder.join("betz"))
}
