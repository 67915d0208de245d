//! The most recent events, kept to mine in and to count newly watched episodes from.

use std::collections::VecDeque;

/// A sliding window, bounded in time and in events.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// Events this many ticks old fall out.
    length: i64,
    /// No more events than this are kept.
    capacity: usize,
    events: VecDeque<(i64, u32)>,
    /// Everything from this tick on is here; `None` while nothing has ever fallen out.
    complete_from: Option<i64>,
}

impl Window {
    pub(super) fn new(length: i64, capacity: usize) -> Self {
        Self {
            length,
            capacity,
            events: VecDeque::new(),
            complete_from: None,
        }
    }

    /// Adds an event, not older than the last; what no longer fits falls out, whole ticks at a time.
    pub(super) fn push(&mut self, tick: i64, symbol: u32) {
        while let Some(&(oldest, _)) = self.events.front() {
            let full = self.events.len() >= self.capacity;
            let cut = self.complete_from.is_some_and(|from| oldest < from);
            if !(full || cut || oldest <= tick - self.length) {
                break;
            }
            self.complete_from = Some(oldest + 1);
            self.events.pop_front();
        }
        self.events.push_back((tick, symbol));
    }

    /// Ticks that an event stays.
    pub(super) fn length(&self) -> i64 {
        self.length
    }

    /// The first tick from which all events are here; `None` when they are from the very first.
    pub(super) fn complete_from(&self) -> Option<i64> {
        self.complete_from
    }

    /// The events from [`Window::complete_from`] on, as (tick, symbol) in time order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        let from = self.complete_from.unwrap_or(i64::MIN);
        self.events.iter().copied().filter(move |e| e.0 >= from)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.complete_from = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_events_fall_out_by_whole_ticks() {
        let mut window = Window::new(10, 4);
        for (tick, symbol) in [(0, 0), (3, 1), (3, 2)] {
            window.push(tick, symbol);
        }
        assert_eq!(window.complete_from(), None);
        window.push(10, 0);
        assert_eq!(window.complete_from(), Some(1));
        // A fifth event does not fit: tick 3, with two events, goes as a whole.
        window.push(11, 0);
        window.push(11, 1);
        assert_eq!(window.complete_from(), Some(4));
        let kept: Vec<_> = window.iter().collect();
        assert_eq!(kept, [(10, 0), (11, 0), (11, 1)]);
        window.push(30, 0);
        assert_eq!(window.iter().collect::<Vec<_>>(), [(30, 0)]);
        assert_eq!(window.complete_from(), Some(12));
    }

    #[test]
    fn a_tick_with_more_events_than_fit_is_not_complete() {
        let mut window = Window::new(10, 2);
        for symbol in 0..3 {
            window.push(5, symbol);
        }
        assert_eq!(window.complete_from(), Some(6));
        assert_eq!(window.iter().count(), 0);
    }
}
