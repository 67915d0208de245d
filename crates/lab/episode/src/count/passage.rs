//! The amount that a chunk of time adds to a count, as a function of the past.
//!
//! The greedy choice goes through occurrences in the order of their ends and takes one that starts after the last one
//! taken ended, at tick e. The past matters only through e. So a chunk [a, b) is a function from e to the number of
//! occurrences taken in it and the end of the last of them. Occurrences that end in the chunk started less than the
//! episode's span before a, so the function has few values: it changes only when e passes the start of one of them, and
//! choices that began differently go on alike from the first end that they share.
//!
//! ```text
//! e        | before s₁      | s₁ ≤ e < s₂    | …  | from sₙ on
//! taken    | c₀, last at l₀ | c₁, last at l₁ | …  | none: e stays the last
//! ```

use super::greedy::GreedyChoice;

/// Choices that go on alike.
#[derive(Debug, Clone, Copy)]
struct Runner {
    count: i64,
    last_end: i64,
}

/// From this e on (to the next's), what `runner` has taken, and so many more or fewer.
#[derive(Debug, Clone, Copy)]
struct Class {
    from: i64,
    runner: usize,
    more: i64,
}

/// A passage under construction, occurrence by occurrence.
#[derive(Debug, Clone)]
pub(crate) struct PassageBuilder {
    /// The first tick: every e is before.
    begin: i64,
    /// From this e on nothing is taken yet, if there is such an e.
    untouched: Option<i64>,
    classes: Vec<Class>,
    runners: Vec<Runner>,
}

impl PassageBuilder {
    /// A chunk whose first event is at `begin`.
    pub(crate) fn new(begin: i64) -> Self {
        Self {
            begin,
            untouched: Some(i64::MIN),
            classes: Vec::new(),
            runners: Vec::new(),
        }
    }

    /// The choice, from a count of 0, if all choices go on alike. Only for a chunk that has lasted as long as the episode
    /// can, so that no later start lies before it.
    pub(crate) fn settled_choice(&self) -> Option<GreedyChoice> {
        match (&self.runners[..], self.untouched) {
            ([only], None) => Some(GreedyChoice {
                count: 0,
                last_end: only.last_end,
            }),
            ([], _) => Some(GreedyChoice::default()),
            _ => None,
        }
    }

    /// Takes over what came of [`settled`](Self::settled).
    pub(crate) fn go_on(&mut self, greedy: GreedyChoice) {
        let GreedyChoice { count, last_end } = greedy;
        match &mut self.runners[..] {
            _ if count == 0 => {}
            [only] => {
                only.count += count as i64;
                only.last_end = last_end;
            }
            _ => {
                self.untouched = None;
                self.classes = vec![Class {
                    from: i64::MIN,
                    runner: 0,
                    more: 0,
                }];
                self.runners = vec![Runner {
                    count: count as i64,
                    last_end,
                }];
            }
        }
    }

    /// The next occurrence, in the order of ends, with its latest start.
    #[inline(always)]
    pub(crate) fn push(&mut self, end: i64, start: i64) {
        match (&mut self.runners[..], self.untouched) {
            // So it is soon after the beginning.
            ([only], None) => {
                let take = start > only.last_end;
                only.count += i64::from(take);
                only.last_end = if take { end } else { only.last_end };
            }
            _ => self.push_to_all(end, start),
        }
    }

    #[inline(never)]
    fn push_to_all(&mut self, end: i64, start: i64) {
        // Those that take it are one from now on: the first of them.
        let mut one: Option<usize> = None;
        let mut at = 0;
        while at < self.runners.len() {
            let runner = &mut self.runners[at];
            if start <= runner.last_end {
                at += 1;
                continue;
            }
            runner.count += 1;
            runner.last_end = end;
            match one {
                None => {
                    one = Some(at);
                    at += 1;
                }
                Some(one) => self.unite(one, at),
            }
        }
        let Some(from) = self.untouched.filter(|from| start > *from) else {
            return;
        };
        let runner = one.unwrap_or_else(|| {
            self.runners.push(Runner {
                count: 1,
                last_end: end,
            });
            self.runners.len() - 1
        });
        self.classes.push(Class {
            from,
            runner,
            more: 1 - self.runners[runner].count,
        });
        self.untouched = (start < self.begin).then_some(start);
    }

    /// Lets `one` go on for `other`, which is after it and which the last runner replaces.
    fn unite(&mut self, one: usize, other: usize) {
        let gone = self.runners.swap_remove(other);
        let moved = self.runners.len();
        let difference = gone.count - self.runners[one].count;
        for class in &mut self.classes {
            if class.runner == other {
                class.runner = one;
                class.more += difference;
            } else if class.runner == moved {
                class.runner = other;
            }
        }
    }

    /// The function that the chunk is.
    pub(crate) fn passage(&self) -> Passage {
        let mut steps: Vec<Step> = Vec::with_capacity(self.classes.len() + 1);
        let taken = self.classes.iter().map(|class| {
            let Runner { count, last_end } = self.runners[class.runner];
            Step {
                from: class.from,
                count: (count + class.more) as u64,
                last_end,
            }
        });
        let none = self.untouched.map(Step::nothing_from);
        for step in taken.chain(none) {
            let same =
                |before: &Step| (before.count, before.last_end) == (step.count, step.last_end);
            if !steps.last().is_some_and(same) {
                steps.push(step);
            }
        }
        Passage { steps }
    }
}

/// The amount that a chunk of time adds to an episode's count: the number of occurrences taken that end in it, and the
/// end of the last of them, as a function of the end of the last one taken before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// By ascending `from`, the first from the beginning of time.
    steps: Vec<Step>,
}

/// From this end of the last one before (to the next step's).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: i64,
    pub(crate) count: u64,
    /// Meaningless if nothing is taken.
    pub(crate) last_end: i64,
}

impl Step {
    fn nothing_from(from: i64) -> Self {
        Self {
            from,
            count: 0,
            last_end: i64::MIN,
        }
    }
}

impl Passage {
    /// A chunk in which nothing ends.
    pub(crate) fn none() -> Self {
        Self {
            steps: vec![Step::nothing_from(i64::MIN)],
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// A passage of `steps`; `None` unless they ascend from the beginning of time.
    pub(crate) fn from_steps(steps: Vec<Step>) -> Option<Self> {
        let ascend = steps.windows(2).all(|w| w[0].from < w[1].from);
        let whole = steps.first().is_some_and(|first| first.from == i64::MIN);
        (ascend && whole).then_some(Self { steps })
    }

    /// Appends the words: the number of steps, then three per step.
    pub(crate) fn put(&self, to: &mut Vec<u64>) {
        to.push(self.steps.len() as u64);
        for step in &self.steps {
            to.extend([step.from as u64, step.count, step.last_end as u64]);
        }
    }

    /// Removes the words of a passage from the front of `from`; `None` if there are no such words.
    pub(crate) fn take(from: &mut &[u64]) -> Option<Self> {
        let (&count, rest) = from.split_first()?;
        let length = usize::try_from(count).ok()?.checked_mul(3)?;
        let (words, rest) = rest.split_at_checked(length)?;
        *from = rest;
        let steps = words.as_chunks::<3>().0.iter();
        let step = |&[from, count, last_end]: &[u64; 3]| Step {
            from: from as i64,
            count,
            last_end: last_end as i64,
        };
        Self::from_steps(steps.map(step).collect())
    }

    /// The choice after the chunk, given the choice `before` it; `None` if a count leaves 64 bits.
    pub(crate) fn after(&self, before: GreedyChoice) -> Option<GreedyChoice> {
        let at = self.steps.partition_point(|s| s.from <= before.last_end);
        match self.steps.get(at.wrapping_sub(1)) {
            Some(step) if step.count > 0 => Some(GreedyChoice {
                count: before.count.checked_add(step.count)?,
                last_end: step.last_end,
            }),
            _ => Some(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_passage_does_what_the_greedy_choice_does(
            begin in 0_i64..30,
            gaps in prop::collection::vec((0_i64..6, 1_i64..25), 0..40),
        ) {
            let mut end = begin;
            let occurrences: Vec<(i64, i64)> = gaps
                .iter()
                .map(|&(gap, length)| {
                    end += gap;
                    (end, end - length)
                })
                .collect();
            let mut passing = PassageBuilder::new(begin);
            for &(end, start) in &occurrences {
                passing.push(end, start);
            }
            let passage = passing.passage();
            for last_end in [i64::MIN].into_iter().chain(begin - 40..begin) {
                let mut greedy = GreedyChoice { count: 5, last_end };
                for &(end, start) in &occurrences {
                    greedy.push(end, start);
                }
                let after = passage.after(GreedyChoice { count: 5, last_end });
                prop_assert_eq!(after, Some(greedy), "{:?} {:?}", &passage, last_end);
            }
        }
    }
}
