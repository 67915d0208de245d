//! Communities of changing groups by least cost (Berger-Wolf and Saia 2006; Tantipathananandh,
//! Berger-Wolf and Kempe 2007).
//!
//! In each time step some individuals are seen, in groups. A colouring gives every group a colour, no
//! two of one step the same, and every individual a colour in every step. It costs
//! - `switching` each time an individual changes colour,
//! - `visiting` each time an individual is in a group of another colour than its own,
//! - `absent` each time a group of an individual's colour is there without it.
//!
//! Given the groups' colours, the individuals' best ones are found exactly by dynamic programming. Over
//! the groups' colours the problem is NP-hard; small sets are searched through.

use betz_base::{Error, Result};

/// Costs of a colouring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Cost of a change of an individual's colour.
    pub switching: f64,
    /// Cost of an individual in a group of another colour.
    pub visiting: f64,
    /// Cost of an individual that is not in the group of its colour.
    pub absent: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            switching: 1.0,
            visiting: 1.0,
            absent: 1.0,
        }
    }
}

/// A colouring and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Colouring {
    /// For each step the colours of its groups.
    pub groups: Vec<Vec<u32>>,
    /// (steps, individuals)
    pub individuals: Vec<u32>,
    /// All costs together.
    pub cost: f64,
}

/// Not seen in this step.
pub const UNSEEN: u32 = u32::MAX;

/// Groups at most in all steps together for [`exhaustive`].
pub const MOST_GROUPS: usize = 12;

fn check(groups: &[u32], individuals: usize, costs: Costs) -> Result<()> {
    if individuals == 0 || !groups.len().is_multiple_of(individuals) {
        return Err(Error::mismatch(format!(
            "groups: expected a whole number of steps of {individuals} individuals, got {} values",
            groups.len()
        )));
    }
    let Costs {
        switching,
        visiting,
        absent,
    } = costs;
    if [switching, visiting, absent]
        .iter()
        .any(|c| !(c.is_finite() && *c >= 0.0))
    {
        return Err(Error::argument(format!(
            "costs: expected 0 or more each, got {costs:?}"
        )));
    }
    Ok(())
}

/// Groups of each step: their number.
fn group_counts(groups: &[u32], individuals: usize) -> Vec<usize> {
    (groups.chunks_exact(individuals))
        .map(|step| {
            step.iter()
                .filter(|g| **g != UNSEEN)
                .max()
                .map_or(0, |g| *g as usize + 1)
        })
        .collect()
}

/// The number of colours, of which each step needs one for each group.
fn check_colours(colours: &[Vec<u32>], counts: &[usize]) -> Result<usize> {
    for (step, count) in counts.iter().enumerate() {
        let given = colours.get(step).map_or(0, Vec::len);
        if given < *count || colours.len() != counts.len() {
            return Err(Error::mismatch(format!(
                "colours of step {step}: expected {count}, got {given}"
            )));
        }
        let mut sorted = colours[step].clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::argument(format!(
                "colours of step {step}: expected each once, got {:?}",
                colours[step]
            )));
        }
    }
    let most = colours
        .iter()
        .flatten()
        .max()
        .map_or(1, |c| *c as usize + 1);
    if most > 4096 {
        return Err(Error::argument(format!(
            "colours: expected at most 4096, got {most}"
        )));
    }
    Ok(most)
}

/// The individuals' colours of least cost, given those of the groups. `groups` is (steps, individuals):
/// the group of each, numbered from 0 in each step, or [`UNSEEN`].
///
/// # Errors
/// [`Mismatch`](betz_base::ErrorKind::Mismatch) for shapes that do not fit,
/// [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for two groups of one step with one colour, a
/// negative cost or more than 4,096 colours.
pub fn colour_individuals(
    groups: &[u32],
    individuals: usize,
    colours: &[Vec<u32>],
    costs: Costs,
) -> Result<Colouring> {
    check(groups, individuals, costs)?;
    let counts = group_counts(groups, individuals);
    let most = check_colours(colours, &counts)?;
    let cheapest = |cost: &[f64]| {
        (cost.iter().copied().enumerate()).fold((0, f64::INFINITY), |best, own| {
            if own.1 < best.1 { own } else { best }
        })
    };
    let steps = counts.len();
    let mut chosen = vec![0; groups.len()];
    let mut total = 0.0;
    for individual in 0..individuals {
        // Least cost of all steps so far that end in each colour, and where it came from.
        let mut cost = vec![0.0; most];
        let mut came = vec![0_u32; steps * most];
        for step in 0..steps {
            let group = groups[step * individuals + individual];
            let (from, least) = cheapest(&cost);
            for colour in 0..most {
                if step > 0 {
                    let change = least + costs.switching;
                    let stays = cost[colour] <= change;
                    came[step * most + colour] = if stays { colour } else { from } as u32;
                    cost[colour] = if stays { cost[colour] } else { change };
                }
                let there = colours[step].iter().position(|c| *c as usize == colour);
                let seen = (group != UNSEEN).then_some(group as usize);
                if seen.is_some() && seen != there {
                    cost[colour] += costs.visiting;
                }
                if there.is_some() && there != seen {
                    cost[colour] += costs.absent;
                }
            }
        }
        let (mut colour, least) = cheapest(&cost);
        total += least;
        for step in (0..steps).rev() {
            chosen[step * individuals + individual] = colour as u32;
            colour = came[step * most + colour] as usize;
        }
    }
    Ok(Colouring {
        groups: colours.to_vec(),
        individuals: chosen,
        cost: total,
    })
}

/// The colouring of least cost of all, by trying every one of the groups' colours: for at most
/// [`MOST_GROUPS`] groups.
///
/// # Errors
/// As for [`colour_individuals`]; [`InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for more groups.
pub fn exhaustive(groups: &[u32], individuals: usize, costs: Costs) -> Result<Colouring> {
    check(groups, individuals, costs)?;
    let counts = group_counts(groups, individuals);
    let all: usize = counts.iter().sum();
    if all > MOST_GROUPS {
        return Err(Error::argument(format!(
            "groups: expected at most {MOST_GROUPS} in all steps, got {all}"
        )));
    }
    let mut colours: Vec<Vec<u32>> = counts.iter().map(|count| vec![0; *count]).collect();
    let places: Vec<(usize, usize)> = counts
        .iter()
        .enumerate()
        .flat_map(|(step, count)| (0..*count).map(move |g| (step, g)))
        .collect();
    let mut best: Option<Colouring> = None;
    // Colours in the order of their first use: each colouring once. One more is nobody's.
    fn next(
        at: usize,
        used: u32,
        places: &[(usize, usize)],
        colours: &mut Vec<Vec<u32>>,
        visit: &mut dyn FnMut(&[Vec<u32>]) -> Result<()>,
    ) -> Result<()> {
        let Some(&(step, group)) = places.get(at) else {
            return visit(colours);
        };
        for colour in 0..=used {
            if colours[step][..group].contains(&colour) {
                continue;
            }
            colours[step][group] = colour;
            next(at + 1, used.max(colour + 1), places, colours, visit)?;
        }
        Ok(())
    }
    next(0, 0, &places, &mut colours, &mut |colours| {
        let found = colour_individuals(groups, individuals, colours, costs)?;
        if best
            .as_ref()
            .is_none_or(|best| found.cost < best.cost - 1e-12)
        {
            best = Some(found);
        }
        Ok(())
    })?;
    best.ok_or_else(|| Error::argument("groups: expected at least one colouring"))
}
