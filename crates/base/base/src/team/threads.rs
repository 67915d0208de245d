//! A team of threads, which tests of several crates share.

use std::boxed::Box;
use std::prelude::rust_2024::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Team, add};
use crate::error::Result;

/// Words of every member, turn by turn; empty until a member has put its words there.
#[derive(Default)]
struct Table {
    turns: Mutex<Vec<Vec<Vec<u64>>>>,
    changed: Condvar,
}

/// A member of a team of threads, which exchange words over a table in memory.
pub struct ThreadTeam<'a> {
    rank: usize,
    size: usize,
    table: &'a Table,
    turn: AtomicUsize,
}

/// The results of `work` on `size` threads, one per member, in order of their ranks.
///
/// # Panics
/// If `work` panics on a thread.
pub fn run_team<T: Send>(size: usize, work: impl Fn(&ThreadTeam<'_>) -> T + Sync) -> Vec<T> {
    let (table, work) = (&Table::default(), &work);
    std::thread::scope(|scope| {
        let member = |rank| {
            scope.spawn(move || {
                work(&ThreadTeam {
                    rank,
                    size,
                    table,
                    turn: AtomicUsize::new(0),
                })
            })
        };
        let members: Vec<_> = (0..size).map(member).collect();
        let join = |member: std::thread::ScopedJoinHandle<'_, T>| {
            // The panic goes on here, with its message.
            member
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        members.into_iter().map(join).collect()
    })
}

/// Members of a team of threads that live as long as the program, for what keeps its team. It is never freed.
pub fn lasting_team(size: usize) -> Vec<&'static ThreadTeam<'static>> {
    let table: &'static Table = Box::leak(Box::default());
    let member = |rank| {
        &*Box::leak(Box::new(ThreadTeam {
            rank,
            size,
            table,
            turn: AtomicUsize::new(0),
        }))
    };
    (0..size).map(member).collect()
}

impl Team for ThreadTeam<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut turns = (self.table.turns.lock()).unwrap_or_else(PoisonError::into_inner);
        if turns.len() <= turn {
            turns.resize(turn + 1, vec![Vec::new(); self.size]);
        }
        // A word in front tells an empty message from one that is missing.
        turns[turn][self.rank] = [&[1], own].concat();
        self.table.changed.notify_all();
        let waiting = |turns: &mut Vec<Vec<Vec<u64>>>| turns[turn].iter().any(Vec::is_empty);
        let all =
            (self.table.changed.wait_while(turns, waiting)).unwrap_or_else(PoisonError::into_inner);
        Ok(all[turn].iter().map(|words| words[1..].to_vec()).collect())
    }

    fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let all = self.gather(own)?;
        Ok(if self.rank == 0 { all } else { Vec::new() })
    }

    /// Adds in another order on every thread: sums of whole numbers must not depend on it.
    fn add(&self, values: &mut [i128]) -> Result<()> {
        let words: Vec<u64> = values
            .iter()
            .flat_map(|&v| [v as u64, (v >> 64) as u64])
            .collect();
        values.fill(0);
        let mut all = self.gather(&words)?;
        all.rotate_left(self.rank);
        for words in all {
            let pairs = words.as_chunks::<2>().0.iter();
            let whole = |&[low, high]: &[u64; 2]| i128::from(high as i64) << 64 | i128::from(low);
            add(values, &pairs.map(whole).collect::<Vec<i128>>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_exchange_words_and_sums() {
        let all = run_team(3, |team| {
            let own = vec![team.rank() as u64; team.rank()];
            assert_eq!(team.gather(&own).unwrap(), [vec![], vec![1], vec![2, 2]]);
            let first = team.collect(&[7]).unwrap();
            let mut values = [i128::from(i64::MIN), team.rank() as i128 - 1];
            team.add(&mut values).unwrap();
            (team.rank(), first.len(), values)
        });
        let sums = [3 * i128::from(i64::MIN), 0];
        assert_eq!(all, [(0, 3, sums), (1, 0, sums), (2, 0, sums)]);
    }
}
