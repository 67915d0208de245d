//! Labels, marks and trials as the markers of an LSL stream.

use std::time::Duration;

use betz_base::Result;

use super::library::{Pull, Room};
use super::{CorrectedInlet, Search};
use crate::clock::host_ns;
use crate::rig::notes::{Note, NoteContent};

/// Room for markers that nobody has taken yet.
const MARKER_ROOM: Room = Room {
    seconds: 60.0,
    irregular_rate: 100.0,
};
/// Markers of an LSL stream, which is waited for, also if it is gone for a while.
pub(crate) struct LslMarkers {
    search: Search,
    open: Option<CorrectedInlet>,
    text: String,
}

impl LslMarkers {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(Self {
            search: Search::new(name)?,
            open: None,
            text: String::new(),
        })
    }

    pub(crate) fn take(&mut self, patience: Duration) -> Result<Option<Note>> {
        let Some(open) = &self.open else {
            if let Some(inlet) = self.search.open(MARKER_ROOM, patience)? {
                self.open = Some(CorrectedInlet::start(inlet)?);
            }
            return Ok(None);
        };
        match open.inlet.pull_text(&mut self.text, patience) {
            Pull::Nothing => Ok(None),
            Pull::Gone => {
                self.open = None;
                Ok(None)
            }
            Pull::Sample(time) => Ok(Some(Note {
                step: None,
                sent: open.nanoseconds(time),
                host_ns: host_ns(),
                content: NoteContent::of_marker(&self.text),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lsl::library::{Format, Lsl, Outlet, OutletPlan};
    use crate::rig::notes::NoteReceiver;

    #[test]
    fn markers_of_lsl_are_marks_and_trials() -> Result<()> {
        let Ok(lsl) = Lsl::load() else {
            eprintln!("skipped: no liblsl");
            return Ok(());
        };
        let name = format!("betz-markers-{}", std::process::id());
        let plan = OutletPlan {
            name: &name,
            kind: c"Markers",
            channels: 1,
            labels: &[],
            rate: 0.0,
            format: Format::STRING,
        };
        let outlet = Outlet::new(Arc::clone(&lsl), &plan)?;
        let mut notes = NoteReceiver::open(&format!("lsl://{name}"))?;
        while !outlet.has_consumers() {
            notes.take(Duration::from_millis(20))?;
        }
        let texts = [
            "trial begin",
            "reward é",
            "Trial  End",
            "trial reject",
            "trial",
            "7",
        ];
        let before = lsl.now();
        for (at, text) in texts.iter().enumerate() {
            assert!(outlet.push_text(text, before + 0.001 * at as f64));
        }
        let mut taken = Vec::new();
        while taken.len() < texts.len() {
            taken.extend(notes.take(Duration::from_secs(5))?);
        }
        let contents: Vec<NoteContent> = taken.iter().map(|note| note.content.clone()).collect();
        let mark = |text: &str| NoteContent::Mark(text.into());
        let expected = [
            NoteContent::TrialBegin,
            mark("reward é"),
            NoteContent::TrialEnd,
            NoteContent::TrialReject,
            mark("trial"),
            mark("7"),
        ];
        assert_eq!(contents, expected);
        // Their times are the sender's, a millisecond apart.
        for pair in taken.windows(2) {
            assert!((pair[1].sent - pair[0].sent - 1_000_000).abs() < 100_000);
        }
        assert!(NoteReceiver::open("lsl://").is_err());
        Ok(())
    }
}
