//! The file of a session's history: written beside a recording, and read by the session that goes on with it.

use std::path::Path;

use betz_base::error::{Error, Result};
use serde_json::Value;

use crate::app::AppState;
use betz_base::lock::lock;

/// Seconds of the session between two writings.
const EVERY_SECONDS: i64 = 10;

/// Puts the seconds of a file, if there is one, before those of the session.
pub(crate) fn restore(app: &AppState, file: &Path) -> Result<()> {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("read", file, &e)),
    };
    let value: Value = serde_json::from_slice(&text).map_err(|e| {
        Error::argument(format!("a session's history: expected JSON, got {e}")).at(file.display())
    })?;
    let restored = lock(&app.seen).restore(&value);
    restored.map_err(|e| e.at(file.display()))
}

/// Writes the history now and then.
#[derive(Debug, Default)]
pub(crate) struct HistoryKeeper {
    /// End of the newest second that is written.
    written: i64,
}

impl HistoryKeeper {
    /// Writes if ten seconds of the session have passed.
    pub(crate) fn write_if_due(&mut self, app: &AppState) {
        let end = lock(&app.seen).session.end();
        if end - self.written >= EVERY_SECONDS {
            self.write(app);
        }
    }

    /// Writes the file whole, or leaves the one before. A disk that is full or gone is the recorder's to report.
    pub(crate) fn write(&mut self, app: &AppState) {
        let Some(file) = app.history_file.get() else {
            return;
        };
        let (end, history) = {
            let seen = lock(&app.seen);
            (seen.session.end(), seen.to_file())
        };
        if end == self.written {
            return;
        }
        self.written = end;
        let new = file.with_extension("json.new");
        let done =
            std::fs::write(&new, history.to_string()).and_then(|()| std::fs::rename(&new, file));
        if done.is_err() {
            let _ = std::fs::remove_file(&new);
        }
    }
}
