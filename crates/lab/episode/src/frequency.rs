//! Definitions of an episode's frequency, by name.

use betz_base::error::{Error, Result};

use crate::clock::MAX_TICK;
use crate::events::Events;

/// A definition of an episode's count.
///
/// An *occurrence* takes one event for each symbol, and every delay Δ between neighbours satisfies low < Δ ≤ high.
/// Events of one symbol in one tick are one event, and events of one tick never follow each other.
///
/// | frequency | counts | never larger for a longer episode |
/// |---|---|---|
/// | [`NonOverlapped`](Self::NonOverlapped) | the largest set of occurrences of which no two overlap | yes |
/// | [`Minimal`](Self::Minimal) | the shortest stretches of time that hold an occurrence | yes |
/// | [`Windows`](Self::Windows) | the windows of one width that hold an occurrence | yes |
/// | [`Distinct`](Self::Distinct) | all occurrences | no |
/// | [`Total`](Self::Total) | the first events of occurrences, of the part that has the fewest | yes |
///
/// The last column decides whether [`mine_by`](crate::mine_by) may search by a frequency: it drops an episode if one of its
/// contiguous parts is not frequent.
///
/// ```
/// use betz_episode::count::{CountJob, Strategy};
/// use betz_episode::{Alphabet, Clock, Events, Frequency, Interval, Pattern};
///
/// # fn main() -> betz_base::Result<()> {
/// let alphabet = Alphabet::new(vec!["A".into(), "B".into()], Clock::from_tick_seconds(0.001)?)?;
/// //                             A  A  B  B
/// let events = Events::new(alphabet, &[0, 1, 3, 4], &[0, 0, 1, 1])?;
/// let a_then_b = [Pattern::new(vec![0, 1], vec![Interval::new(0, 5)?])?];
/// let count = |frequency: Frequency| frequency.count(&CountJob::new(&events, &a_then_b));
/// assert_eq!(count(Frequency::NonOverlapped)?, [1]);
/// assert_eq!(count(Frequency::Minimal { span: None })?, [1]); // 1 → 3
/// assert_eq!(count(Frequency::Windows { width: 4 })?, [2]); // from tick 0 and from tick 1
/// assert_eq!(count(Frequency::Distinct)?, [4]); // each A with each B
/// assert_eq!(count(Frequency::Total { span: None })?, [2]); // two A and two B; both A begin one
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Frequency {
    /// The size of the largest set of occurrences of which no two overlap: each ends before the next one starts.
    #[default]
    NonOverlapped,
    /// Minimal occurrences (Mannila, Toivonen and Verkamo 1997, §5): stretches of time from the first to the last event of
    /// an occurrence that hold no shorter one.
    Minimal {
        /// Most ticks from the first to the last event; `None` for no limit besides the intervals'.
        span: Option<i64>,
    },
    /// Windows (Mannila, Toivonen and Verkamo 1997, §2): windows of `width` ticks, one beginning at every tick, in which an
    /// occurrence lies whole. The first and the last windows extend beyond the events. A window [t, t + width) holds
    /// events that are less than `width` apart.
    Windows {
        /// Ticks of a window.
        width: i64,
    },
    /// All distinct occurrences (Joshi, Karypis and Kumar 1999, `CDIST_O`): any two differ in at least one event, which
    /// they may otherwise share. Counts grow as a power of the number of events; they stop at 2⁶⁴ − 1, which then stands
    /// for this number or more.
    Distinct,
    /// Total frequency (Iwanuma, Takano and Nabeshima 2004): the least head frequency of all contiguous parts, the episode
    /// itself included. The head frequency is the number of events at which an occurrence starts.
    Total {
        /// Most ticks from the first to the last event of an occurrence; `None` for no limit besides the intervals'.
        span: Option<i64>,
    },
}

impl Frequency {
    /// The names, in the order of the table above.
    pub const NAMES: [&str; 5] = ["non-overlapped", "minimal", "windows", "distinct", "total"];

    /// The frequency called `name`, one of [`NAMES`](Self::NAMES); `span` in ticks, which for windows is their width.
    ///
    /// # Errors
    /// `InvalidArgument` for another name, windows without a width, a span where there is none, or one outside 1 to 2⁶¹.
    pub fn from_name(name: &str, span: Option<i64>) -> Result<Self> {
        if let Some(span) = span
            && !(1..MAX_TICK).contains(&span)
        {
            return Err(Error::argument(format!(
                "span: expected at least one tick, and less than 2^61, got {span}"
            )));
        }
        match (name, span) {
            ("non-overlapped", None) => Ok(Self::NonOverlapped),
            ("distinct", None) => Ok(Self::Distinct),
            ("minimal", span) => Ok(Self::Minimal { span }),
            ("total", span) => Ok(Self::Total { span }),
            ("windows", Some(width)) => Ok(Self::Windows { width }),
            ("windows", None) => Err(Error::argument(
                "windows: expected a span, which is the width of a window, got none",
            )),
            ("non-overlapped" | "distinct", Some(_)) => Err(Error::argument(format!(
                "{name}: expected no span, got one; minimal, windows and total have one"
            ))),
            _ => Err(Error::argument(format!(
                "expected one of {}, got {name:?}",
                Self::NAMES.join(", ")
            ))),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NonOverlapped => "non-overlapped",
            Self::Minimal { .. } => "minimal",
            Self::Windows { .. } => "windows",
            Self::Distinct => "distinct",
            Self::Total { .. } => "total",
        }
    }

    /// The span, or the width of a window, in ticks.
    pub fn span(self) -> Option<i64> {
        match self {
            Self::NonOverlapped | Self::Distinct => None,
            Self::Minimal { span } | Self::Total { span } => span,
            Self::Windows { width } => Some(width),
        }
    }

    /// True if no episode is counted more often than any of its contiguous parts.
    pub fn is_anti_monotone(self) -> bool {
        self != Self::Distinct
    }

    /// Checks that a search by size finds every episode that is frequent by this definition.
    ///
    /// # Errors
    /// `InvalidArgument` for distinct occurrences, of which a longer episode can have more than its parts.
    pub fn check_search(self) -> Result<()> {
        if self.is_anti_monotone() {
            return Ok(());
        }
        Err(Error::argument(format!(
            "{}: expected episodes to count, got a search, which would miss episodes that occur more often than their parts; \
             search by another count, and count what it finds",
            self.name()
        )))
    }

    /// Checks the span against `events`.
    ///
    /// # Errors
    /// `InvalidArgument` for a span below 1; `Mismatch` for windows that would reach from one segment of a recording into
    /// the next.
    pub fn check(self, events: &Events) -> Result<()> {
        if let Some(span) = self.span()
            && !(1..MAX_TICK).contains(&span)
        {
            return Err(Error::argument(format!(
                "span: expected at least one tick, and less than 2^61, got {span}"
            )));
        }
        match (self, events.segment_gap()) {
            (Self::Windows { width }, Some(gap)) if width > gap => {
                let clock = events.clock();
                Err(Error::mismatch(format!(
                    "windows of {} s are too long for a recording of several segments: expected at most {} s",
                    clock.seconds(width),
                    clock.seconds(gap)
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_frequencies_and_back() {
        for name in Frequency::NAMES {
            let spans = [None, Some(7)].map(|span| Frequency::from_name(name, span));
            let takes_span = ["minimal", "windows", "total"].contains(&name);
            assert_eq!(spans[0].is_ok(), name != "windows");
            assert_eq!(spans[1].is_ok(), takes_span);
            for frequency in spans.into_iter().flatten() {
                assert_eq!(frequency.name(), name);
                assert_eq!(
                    Frequency::from_name(name, frequency.span()).unwrap(),
                    frequency
                );
            }
        }
        for (name, span, words) in [
            ("often", None, "expected one of non-overlapped, minimal"),
            ("minimal", Some(0), "span: expected at least one tick"),
            ("windows", None, "width of a window"),
            ("distinct", Some(3), "expected no span"),
        ] {
            let error = Frequency::from_name(name, span).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
