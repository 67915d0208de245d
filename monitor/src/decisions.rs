//! Decisions of a page about the models of a session. The session's program carries them out, so that it can record them.

/// A request of a page to the program that runs the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Give the session the model that waits ([`RecalibrationStatus::suggested`](crate::RecalibrationStatus::suggested),
    /// [`LearningStatus::proposed`](crate::LearningStatus::proposed)).
    Accept,
    /// Return to the model before.
    RollBack,
}

impl Decision {
    /// Reads the last part of a request's path; `None` if it names no decision.
    pub(crate) fn from_path(what: &str) -> Option<Self> {
        match what {
            "accept" => Some(Self::Accept),
            "roll-back" => Some(Self::RollBack),
            _ => None,
        }
    }
}
