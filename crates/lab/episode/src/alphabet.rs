//! Labels on a clock: they turn text into symbols and back.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::clock::Clock;
use crate::label::written_label;
use betz_base::error::{Error, Result};

/// The symbols' labels and the clock, which turn text into patterns and back.
#[derive(Debug, Clone)]
pub struct Alphabet {
    labels: Vec<String>,
    by_label: HashMap<String, u32>,
    clock: Clock,
}

impl Alphabet {
    /// Symbols 0, 1, 2, … named by `labels`, on `clock`.
    ///
    /// # Errors
    /// `InvalidArgument` when two labels are equal, or there are more than 2³² of them.
    pub fn new(labels: Vec<String>, clock: Clock) -> Result<Self> {
        let mut by_label = HashMap::with_capacity(labels.len());
        for (i, label) in labels.iter().enumerate() {
            let symbol = u32::try_from(i).map_err(|_| Error::argument("more than 2^32 labels"))?;
            if by_label.insert(label.clone(), symbol).is_some() {
                return Err(Error::argument(format!(
                    "label {label:?} occurs twice: labels must differ"
                )));
            }
        }
        Ok(Self {
            labels,
            by_label,
            clock,
        })
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// True when there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All labels, in the order of their symbols.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The label of `symbol`; `"?"` for a symbol that is not here.
    pub fn label(&self, symbol: u32) -> &str {
        self.labels.get(symbol as usize).map_or("?", String::as_str)
    }

    /// The label of `symbol` as written in an episode's text: in quotes if it would be misread
    /// ([`Pattern::parse`](super::Pattern::parse)).
    pub fn written(&self, symbol: u32) -> Cow<'_, str> {
        written_label(self.label(symbol))
    }

    /// The symbol of `label`.
    pub fn symbol(&self, label: &str) -> Option<u32> {
        self.by_label.get(label).copied()
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A hint for a message about an unknown `label`: the nearest label, and the list of labels.
    pub(crate) fn instead_of(&self, label: &str) -> String {
        /// Most labels in the list.
        const SHOWN: usize = 12;
        let shown: Vec<&str> = self.labels.iter().take(SHOWN).map(String::as_str).collect();
        let more = if self.labels.len() > SHOWN {
            ", …"
        } else {
            ""
        };
        let all = format!(
            "expected one of {} ({}{more})",
            self.labels.len(),
            shown.join(", ")
        );
        let nearest = (self.labels.iter())
            .map(|known| (strsim::damerau_levenshtein(known, label), known))
            .min_by_key(|&(edits, _)| edits);
        match nearest {
            // As many edits as characters could make any label of any other.
            Some((edits, known)) if edits <= 2 && edits < label.chars().count() => {
                format!("did you mean {known:?}? {all}")
            }
            _ => all,
        }
    }
}
