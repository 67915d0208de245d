//! The ranks of an MPI job as a team.

use betz::team::{Team, add};
use betz::{Error, ErrorKind, Result};
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};

/// Words that are sent at once: MPI counts elements in 31 bits, and a rank needs room for no more than this.
const BLOCK: usize = 1 << 20;

/// All ranks of the job. MPI is called by the thread that started it alone.
pub(crate) struct Ranks {
    rank: usize,
    size: usize,
    /// Words that are sent at once, at least two.
    block: usize,
}

impl Ranks {
    /// To be made once MPI is there.
    pub(crate) fn new() -> Self {
        Self::in_blocks(BLOCK)
    }

    /// Ranks that send so many words at once.
    pub(crate) fn in_blocks(block: usize) -> Self {
        let world = SimpleCommunicator::world();
        Self {
            rank: world.rank() as usize,
            size: world.size() as usize,
            block: block.max(2),
        }
    }

    /// Sends `values` to `to`, block after block.
    fn send(&self, to: usize, values: &[i128]) {
        let world = SimpleCommunicator::world();
        let process = world.process_at_rank(to as i32);
        for block in values.chunks(self.block / 2) {
            process.send(&words_of(block)[..]);
        }
    }

    /// Adds what `from` sends to `values`.
    fn receive(&self, from: usize, values: &mut [i128]) -> Result<()> {
        let world = SimpleCommunicator::world();
        let process = world.process_at_rank(from as i32);
        let mut words = vec![0_u64; values.len().min(self.block / 2) * 2];
        for block in values.chunks_mut(self.block / 2) {
            let words = &mut words[..block.len() * 2];
            process.receive_into(words);
            add(block, &numbers_of(words))?;
        }
        Ok(())
    }
}

impl Team for Ranks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let world = SimpleCommunicator::world();
        let mut lengths = vec![0_u64; self.size];
        world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
        let total = (lengths.iter()).fold(0_u64, |sum, length| sum.saturating_add(*length));
        if total <= self.block as u64 {
            return Ok(gather_at_once(&world, own, &lengths));
        }
        (lengths.iter().enumerate())
            .map(|(rank, &length)| {
                let mut words = if rank == self.rank {
                    own.to_vec()
                } else {
                    room(length)?
                };
                let root = world.process_at_rank(rank as i32);
                for block in words.chunks_mut(self.block) {
                    root.broadcast_into(block);
                }
                Ok(words)
            })
            .collect()
    }

    fn collect(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let world = SimpleCommunicator::world();
        let mut lengths = vec![0_u64; self.size];
        world.all_gather_into(&(own.len() as u64), &mut lengths[..]);
        if self.rank > 0 {
            let first = world.process_at_rank(0);
            own.chunks(self.block).for_each(|block| first.send(block));
            return Ok(Vec::new());
        }
        let mut all = vec![own.to_vec()];
        for (rank, &length) in lengths.iter().enumerate().skip(1) {
            let mut words = room(length)?;
            let process = world.process_at_rank(rank as i32);
            for block in words.chunks_mut(self.block) {
                process.receive_into(block);
            }
            all.push(words);
        }
        Ok(all)
    }

    /// Up a tree of ranks, then down again: log₂ of them, twice.
    fn add(&self, values: &mut [i128]) -> Result<()> {
        self.reduce(values)?;
        let world = SimpleCommunicator::world();
        let root = world.process_at_rank(0);
        for block in values.chunks_mut(self.block / 2) {
            let mut words = words_of(block);
            root.broadcast_into(&mut words[..]);
            block.copy_from_slice(&numbers_of(&words));
        }
        Ok(())
    }

    /// Up a tree of ranks, in pairs, block after block.
    fn reduce(&self, values: &mut [i128]) -> Result<()> {
        let mut step = 1;
        while step < self.size {
            if self.rank.is_multiple_of(2 * step) {
                if self.rank + step < self.size {
                    self.receive(self.rank + step, values)?;
                }
            } else if self.rank.is_multiple_of(step) {
                self.send(self.rank - step, values);
                break;
            }
            step *= 2;
        }
        Ok(())
    }
}

/// The words of every rank, which are few, by one call.
fn gather_at_once(world: &SimpleCommunicator, own: &[u64], lengths: &[u64]) -> Vec<Vec<u64>> {
    let counts: Vec<i32> = lengths.iter().map(|length| *length as i32).collect();
    let mut next = 0;
    let displacements: Vec<i32> = (counts.iter())
        .map(|count| {
            let begin = next;
            next += count;
            begin
        })
        .collect();
    let mut words = vec![0_u64; next as usize];
    let mut partition = PartitionMut::new(&mut words[..], &counts[..], &displacements[..]);
    world.all_gather_varcount_into(own, &mut partition);
    let mut rest = &words[..];
    (counts.iter())
        .map(|&count| {
            let (own, others) = rest.split_at(count as usize);
            rest = others;
            own.to_vec()
        })
        .collect()
}

/// Two words a number, the low one first.
fn words_of(numbers: &[i128]) -> Vec<u64> {
    let halves = |&n: &i128| [n as u64, (n >> 64) as u64];
    numbers.iter().flat_map(halves).collect()
}

fn numbers_of(words: &[u64]) -> Vec<i128> {
    let pairs = words.as_chunks::<2>().0.iter();
    let whole = |&[low, high]: &[u64; 2]| i128::from(high as i64) << 64 | i128::from(low);
    pairs.map(whole).collect()
}

/// Room for `length` words to receive.
fn room(length: u64) -> Result<Vec<u64>> {
    let count = usize::try_from(length).map_err(|_| too_many(length))?;
    let mut words = Vec::new();
    (words.try_reserve_exact(count)).map_err(|_| too_many(length))?;
    words.resize(count, 0);
    Ok(words)
}

fn too_many(words: u64) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!("a rank's part: expected room for {words} words, got none"),
    )
}
