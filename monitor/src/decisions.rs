//! Decisions of a page about the models of a session, which the session's program carries out: so that it can record them.

use std::sync::mpsc::{Receiver, Sender, channel};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use betz_base::error::{Error, Result};
use serde_json::json;

use crate::Monitor;
use crate::app::{AppState, json_of};

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
    fn named(what: &str) -> Option<Self> {
        match what {
            "accept" => Some(Self::Accept),
            "roll-back" => Some(Self::RollBack),
            _ => None,
        }
    }
}

impl Monitor {
    /// The pages' decisions about the models of the session, if [`Options::control`](crate::Options::control) is set: for a
    /// program that carries them out itself, in place of [`Monitor::control`].
    ///
    /// # Errors
    /// `InvalidArgument` from the second call on.
    pub fn decisions(&self) -> Result<Receiver<Decision>> {
        let (to, from) = channel();
        (self.shared.decisions.set(to)).map_err(|_| {
            Error::argument(
                "decisions: expected a page whose decisions nobody takes yet, got it twice",
            )
        })?;
        Ok(from)
    }
}

/// The sender of decisions, if pages may decide.
pub(crate) fn sender(app: &AppState) -> Option<&Sender<Decision>> {
    app.decisions.get().filter(|_| app.may_control)
}

/// Hands a decision to the session's program; `None` for a request that is none, or if no program takes decisions.
pub(crate) fn hand_over(app: &AppState, what: &str) -> Option<Response> {
    let (sender, decision) = (sender(app)?, Decision::named(what)?);
    Some(match sender.send(decision) {
        Ok(()) => (StatusCode::ACCEPTED, json_of(&json!({"what": what}))).into_response(),
        Err(_) => (StatusCode::CONFLICT, "the session has ended").into_response(),
    })
}
