//! Units' spikes found in the voltage by what they look like on all channels that see them, and taken away from it: the
//! largest first, so that what lies under it is seen. Matching pursuit (Mallat and Zhang 1993), decided as samples come.
//!
//! A template is a sum of few products of a shape in time and weights of channels. Each row of voltage is weighed once a
//! product; the score of a template at a place is then a sum over its span, C = Σ T · y, and the energy of the voltage falls by
//! 2 C − E, with E = Σ T², when it is taken away there.

mod state;

use betz_base::{Result, memory};
use pulp::{Arch, Simd, WithSimd};

use crate::front::{FrontEnd, LANES};
use crate::settings::{AHEAD_MS, Span};
use crate::sorter::{Sorter, UnitMove};
use crate::template::RANK;
use crate::template::Template;

/// Standard deviations of its score in noise that a spike stands out by at least.
const STANDS_OUT: f32 = 5.0;
/// Part of a template's energy that a spike scores at least.
const LEAST_PART: f32 = 0.5;
/// The same at most: what scores more is of a larger unit, which training did not see.
const MOST_PART: f32 = 1.6;
/// The rest around a spike's minimum when all spikes are taken away, by what was taken, from which on it was of a unit that
/// training did not see.
const LEFT: f32 = 0.15;
/// The same by noise: three standard deviations of sums of squares, each alike over some four samples.
const SCATTERS: f32 = 8.5;
/// Milliseconds before and after the minimum in which it is measured.
const LEFT_MS: f64 = 0.35;
/// Part of its own size by which a unit may move unreported. What noise, neighbours and spikes of other sizes do to a mean was
/// seen to be below a tenth, ten minutes of 5 µm a minute 0.4 to 1.
const MAY_MOVE: f32 = 0.25;
/// Standard deviations of the noise by which it may move all the same.
const LEAST_MOVE: f32 = 3.0;
/// Times by which its rate may change.
const MAY_CHANGE: f64 = 3.0;
/// Spikes that training counts for at least: the first spikes of a rare unit do not throw it about.
const LEAST_MASS: f64 = 50.0;
/// Spikes taken away at one place before it is left: no more lie there.
const MOST_AT_ONCE: usize = 64;

/// A spike that was taken away.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FoundSpike {
    pub(crate) sample: i64,
    /// Place of its unit, and of its template.
    pub(crate) unit: u32,
    pub(crate) template: usize,
    /// Channel of its minimum, by its place in the layout, and the voltage there before it was taken away.
    pub(crate) channel: usize,
    pub(crate) microvolts: f32,
    /// Its size by its unit's: C / E.
    #[cfg_attr(not(feature = "train"), allow(dead_code))]
    pub(crate) size: f32,
    /// Difference between the two, in standard deviations of the noise: |C − E| / √E.
    pub(crate) distance: f32,
}

/// All units of a sorter, looked for.
#[derive(Debug, Clone)]
pub(crate) struct Matching {
    arch: Arch,
    span: Span,
    ahead: usize,
    exclusive: i64,
    around: i64,
    /// Channels by whole lanes.
    padded: usize,
    noise: Vec<f32>,
    per_noise: Vec<f32>,
    units: Vec<Unit>,
    /// For each unit and product: what rows weigh, the newest at `at`; contiguous, so that a span is a slice.
    weighed: Vec<f32>,
    room: usize,
    at: usize,
    /// Last scores of each unit, by sample.
    scores: Vec<f32>,
    kept: usize,
    /// The last rows in microvolts, less what was taken away: a power of two of them.
    rest: Vec<f32>,
    rows: usize,
    next: i64,
    taken: Vec<FoundSpike>,
    samples_per_constant: f64,
    rate_hz: f64,
}

#[derive(Debug, Clone)]
struct Unit {
    /// Channels by whole lanes: `from..until` of a row.
    from: usize,
    until: usize,
    /// Place of its unit in the sorter.
    unit: u32,
    /// (RANK, span with zeros before it to whole lanes).
    shapes: Vec<f32>,
    /// (RANK, channels), in standard deviations of the noise.
    weights: Vec<f32>,
    trained: Vec<f32>,
    /// `weights` by the noise: what microvolts are weighed by.
    per_microvolt: Vec<f32>,
    energy: f32,
    floor: f32,
    last: i64,
    /// Units that share channels with it, itself too.
    touching: Vec<Overlap>,
    /// Forgetting count of spikes.
    mass: f64,
    trained_hz: f64,
}

#[derive(Debug, Clone)]
struct Overlap {
    unit: usize,
    /// (RANK of the other, RANK, lags): Σ_i other's shape (i) · shape (i + lag), for lags −ahead to ahead.
    shapes: Vec<f32>,
}

impl Unit {
    /// A template, padded to whole lanes; its unit and its rate are not known.
    fn of_template(template: &Template, span: Span) -> Result<Self> {
        let length = span.len().next_multiple_of(LANES);
        let (from, until) = (
            template.from / LANES * LANES,
            template.until.next_multiple_of(LANES),
        );
        let width = until - from;
        let mut shapes = memory::filled("templates", 0.0, RANK * length)?;
        for (to, shape) in
            (shapes.chunks_exact_mut(length)).zip(template.shapes.chunks_exact(span.len()))
        {
            to[length - span.len()..].copy_from_slice(shape);
        }
        let mut weights = memory::filled("templates", 0.0, RANK * width)?;
        let own = template.until - template.from;
        for (to, own) in
            (weights.chunks_exact_mut(width)).zip(template.weights.chunks_exact(own.max(1)))
        {
            to[template.from - from..][..own.len()].copy_from_slice(own);
        }
        Ok(Self {
            from,
            until,
            unit: 0,
            shapes,
            trained: weights.clone(),
            per_microvolt: weights.clone(),
            weights,
            energy: 0.0,
            floor: template.floor,
            last: i64::MIN / 2,
            touching: Vec::new(),
            mass: 0.0,
            trained_hz: 0.0,
        })
    }

    fn least(&self) -> f32 {
        (LEAST_PART * self.energy).max(STANDS_OUT * self.floor)
    }

    fn weigh(&mut self, per_noise: &[f32]) {
        let width = self.until - self.from;
        self.energy = self.weights.iter().map(|w| w * w).sum();
        for (to, weights) in
            (self.per_microvolt.chunks_exact_mut(width)).zip(self.weights.chunks_exact(width))
        {
            for ((to, w), per) in to.iter_mut().zip(weights).zip(&per_noise[self.from..]) {
                *to = w * per;
            }
        }
    }
}

impl Matching {
    pub(crate) fn new(sorter: &Sorter, front: &FrontEnd) -> Result<Self> {
        let settings = &sorter.settings;
        let layout = &sorter.layout;
        let span = Span::from_settings(settings);
        let ahead = settings.samples(AHEAD_MS);
        let padded = layout.channels().next_multiple_of(LANES);
        let per = |f: fn(f32) -> f32| {
            let mut all: Vec<f32> = layout.noise.iter().map(|s| f(*s)).collect();
            all.resize(padded, 0.0);
            all
        };
        let (noise, per_noise) = (per(|s| s), per(|s| 1.0 / s));
        let length = span.len().next_multiple_of(LANES);
        let mut units = Vec::with_capacity(sorter.units.len());
        let templates = sorter.units.iter().enumerate();
        for (u, unit, template) in templates.flat_map(|(u, unit)| {
            let all = std::iter::once(&unit.template).chain(&unit.more);
            all.map(move |template| (u, unit, template))
        }) {
            let mut one = Unit {
                unit: u as u32,
                mass: unit.rate_hz * sorter.forget_seconds,
                trained_hz: unit.rate_hz,
                ..Unit::of_template(template, span)?
            };
            one.weigh(&per_noise);
            units.push(one);
        }
        for k in 0..units.len() {
            let mut touching = Vec::new();
            for j in 0..units.len() {
                if units[j].from < units[k].until && units[k].from < units[j].until {
                    let shapes = products(&units[j].shapes, &units[k].shapes, length, ahead)?;
                    touching.push(Overlap { unit: j, shapes });
                }
            }
            units[k].touching = touching;
        }
        let count = units.len();
        let room = 8 * length;
        let kept = (ahead + 1).next_power_of_two();
        let exclusive = front.exclusive() as usize;
        let rows = (length + ahead + span.before + exclusive + 2).next_power_of_two();
        Ok(Self {
            arch: Arch::new(),
            span,
            ahead,
            exclusive: front.exclusive(),
            around: settings.samples(LEFT_MS) as i64,
            padded,
            noise,
            per_noise,
            weighed: memory::filled("templates", 0.0, count * RANK * room)?,
            room,
            at: length - 1,
            scores: memory::filled("templates", 0.0, count * kept)?,
            kept,
            rest: memory::filled("rows", 0.0, rows * padded)?,
            rows,
            next: 0,
            taken: memory::room("spikes", 2 * count * (ahead + 2) + MOST_AT_ONCE)?,
            units,
            samples_per_constant: sorter.forget_seconds * settings.rate_hz,
            rate_hz: settings.rate_hz,
        })
    }

    /// Samples by which a place is decided after its own.
    fn behind(&self) -> i64 {
        (self.span.after - 1 + self.ahead) as i64
    }

    /// Takes the front end's newest row, and decides the place that it lets decide. Does not allocate.
    pub(crate) fn step(&mut self, front: &FrontEnd) {
        let length = self.span.len().next_multiple_of(LANES);
        let to = self.slot(self.next);
        let row = &mut self.rest[to..to + self.padded];
        // The swing of an artefact is no spike's.
        match front.is_blanked_now() {
            true => row.fill(0.0),
            false => row.copy_from_slice(front.row(self.next)),
        }
        self.at += 1;
        if self.at == self.room {
            for plane in self.weighed.chunks_exact_mut(self.room) {
                plane.copy_within(self.room - length + 1.., 0);
            }
            self.at = length - 1;
        }
        let place = self.next + 1 - self.span.after as i64;
        self.arch.dispatch(Score {
            units: &self.units,
            row: &self.rest[to..to + self.padded],
            weighed: &mut self.weighed,
            room: self.room,
            at: self.at,
            length,
            scores: &mut self.scores,
            kept: self.kept,
            slot: place as usize & (self.kept - 1),
        });
        self.next += 1;
        self.decide(front, place - self.ahead as i64, place);
    }

    /// Score of a unit's template at the newest place.
    #[cfg(feature = "train")]
    pub(crate) fn newest_score(&self, unit: usize) -> f32 {
        self.score(unit, self.next - self.span.after as i64)
    }

    fn score(&self, unit: usize, place: i64) -> f32 {
        self.scores[unit * self.kept + (place as usize & (self.kept - 1))]
    }

    /// By how much the energy falls when a unit's spike is taken away at a place; `None` where there is none.
    fn gain(&self, k: usize, place: i64) -> Option<f32> {
        let unit = &self.units[k];
        let score = self.score(k, place);
        let found = score >= unit.least() && (place - unit.last).abs() > self.exclusive;
        found.then_some(2.0 * score - unit.energy)
    }

    /// Takes away what lies at `place`, and before it what lies within reach of it until `newest` and is larger.
    fn decide(&mut self, front: &FrontEnd, place: i64, newest: i64) {
        for _ in 0..MOST_AT_ONCE {
            let mut best: Option<(f32, usize, i64)> = None;
            for k in 0..self.units.len() {
                if let Some(gain) = self.gain(k, place)
                    && best.is_none_or(|(most, ..)| gain > most)
                {
                    best = Some((gain, k, place));
                }
            }
            let Some((mut most, unit, _)) = best else {
                return;
            };
            let (mut k, mut at) = (unit, place);
            for touching in &self.units[unit].touching {
                for other in place..=newest {
                    if let Some(gain) = self.gain(touching.unit, other)
                        && gain > most
                    {
                        (most, k, at) = (gain, touching.unit, other);
                    }
                }
            }
            if self.score(k, at) > MOST_PART * self.units[k].energy {
                self.units[k].last = at;
            } else {
                self.take_away(front, k, at, place, newest);
            }
        }
    }

    fn take_away(&mut self, front: &FrontEnd, k: usize, at: i64, place: i64, newest: i64) {
        let length = self.span.len().next_multiple_of(LANES);
        let energy = self.units[k].energy;
        let size = self.score(k, at) / energy;
        let (own, first) = (&self.units[k], at - self.span.before as i64);
        let ring = |sample: i64| (sample as usize & (self.rows - 1)) * self.padded;
        let row = &self.rest[ring(at)..][own.from..own.until];
        let lowest = (row.iter().enumerate()).min_by(|a, b| a.1.total_cmp(b.1));
        let (channel, microvolts) = lowest.map_or((own.from, 0.0), |(c, y)| (own.from + c, *y));
        // Where the row at `first` lies in what is weighed.
        let begin = self.at as i64 - (self.next - 1 - first);
        for touching in &own.touching {
            let j = touching.unit;
            let other = &self.units[j];
            let dots = dots(other, own);
            for (r, dots) in dots.iter().enumerate() {
                let plane = &mut self.weighed[(j * RANK + r) * self.room..][..self.room];
                for (i, s) in (length - self.span.len()..length).enumerate() {
                    let sum: f32 = (0..RANK)
                        .map(|q| dots[q] * own.shapes[q * length + s])
                        .sum();
                    let to = begin + i as i64;
                    if to >= 0 {
                        plane[to as usize] -= sum;
                    }
                }
            }
            let lags = 2 * self.ahead + 1;
            for l in place..=newest {
                let lag = (l - at + self.ahead as i64) as usize;
                let mut sum = 0.0;
                for (r, dots) in dots.iter().enumerate() {
                    for (q, dot) in dots.iter().enumerate() {
                        sum += dot * touching.shapes[(r * RANK + q) * lags + lag];
                    }
                }
                self.scores[j * self.kept + (l as usize & (self.kept - 1))] -= sum;
            }
        }
        let width = own.until - own.from;
        for (i, s) in (length - self.span.len()..length).enumerate() {
            let to = ring(first + i as i64) + own.from;
            let row = &mut self.rest[to..to + width];
            for (q, weights) in own.weights.chunks_exact(width).enumerate() {
                let shape = own.shapes[q * length + s];
                for ((y, w), noise) in row.iter_mut().zip(weights).zip(&self.noise[own.from..]) {
                    *y -= shape * w * noise;
                }
            }
        }
        let blanked = front.is_blanked(at);
        if self.samples_per_constant > 0.0 && !blanked {
            self.follow(k, at);
        }
        self.units[k].last = at;
        if blanked {
            return;
        }
        let taken = FoundSpike {
            sample: at,
            unit: self.units[k].unit,
            template: k,
            channel,
            microvolts,
            size,
            distance: (size - 1.0).abs() * energy.sqrt(),
        };
        if self.taken.len() < self.taken.capacity() {
            let to = self.taken.partition_point(|t| t.sample <= at);
            self.taken.insert(to, taken);
        }
    }

    /// Moves a unit's weights toward its spike, whose rest is what was left, by what the spike weighs against those that are
    /// not forgotten. Its shapes stay: what moves is where it is seen.
    fn follow(&mut self, k: usize, at: i64) {
        let length = self.span.len().next_multiple_of(LANES);
        let unit = &mut self.units[k];
        let since = (at - unit.last.max(0)).max(0) as f64 / self.samples_per_constant;
        unit.mass = unit.mass * (-since).exp() + 1.0;
        let share = (1.0 / unit.mass.max(LEAST_MASS)) as f32;
        let width = unit.until - unit.from;
        let first = at - self.span.before as i64;
        for (i, s) in (length - self.span.len()..length).enumerate() {
            let sample = first + i as i64;
            let from = (sample as usize & (self.rows - 1)) * self.padded + unit.from;
            let row = &self.rest[from..from + width];
            for (q, weights) in unit.weights.chunks_exact_mut(width).enumerate() {
                let shape = share * unit.shapes[q * length + s];
                for ((w, y), per) in (weights.iter_mut().zip(row)).zip(&self.per_noise[unit.from..])
                {
                    *w += shape * y * per;
                }
            }
        }
        unit.weigh(&self.per_noise);
    }

    /// The next spike, in the order of samples, where no other can come before it any more, with its unit if what is left around
    /// it is little.
    pub(crate) fn take(&mut self) -> Option<(FoundSpike, bool)> {
        let decided = self.next - 1 - self.behind() - self.exclusive;
        let first = self.taken.first()?;
        if first.sample > decided {
            return None;
        }
        let taken = self.taken.remove(0);
        Some((taken, self.explains(taken)))
    }

    /// True if a spike's template is most of the signal around it: of the channels by what they see of it, and of the time around its
    /// minimum, with all other spikes taken away.
    fn explains(&self, taken: FoundSpike) -> bool {
        let unit = &self.units[taken.template];
        let length = self.span.len().next_multiple_of(LANES);
        let width = unit.until - unit.from;
        let minimum = length - self.span.after;
        let (mut own, mut left, mut noise, mut scatter) = (0.0, 0.0, 0.0, 0.0_f32);
        for i in -self.around..=self.around {
            let shape = (minimum as i64 + i) as usize;
            let shapes: [f32; RANK] = std::array::from_fn(|r| unit.shapes[r * length + shape]);
            let row = &self.rest[self.slot(taken.sample + i)..][unit.from..unit.until];
            for (c, (y, per)) in row.iter().zip(&self.per_noise[unit.from..]).enumerate() {
                let weights: [f32; RANK] = std::array::from_fn(|r| unit.weights[r * width + c]);
                let sees: f32 = weights.iter().map(|w| w * w).sum();
                let mean: f32 = shapes.iter().zip(&weights).map(|(s, w)| s * w).sum();
                let rest = y * per;
                own += sees * mean * mean;
                left += sees * rest * rest;
                noise += sees;
                scatter += sees * sees;
            }
        }
        // Squares of noise that a filter has made alike over some samples scatter by more than √2 of each.
        left - noise <= LEFT * own + SCATTERS * scatter.sqrt()
    }

    /// The newest sample from whose row nothing will be taken away any more, which is below 0 at first.
    pub(crate) fn settled(&self) -> i64 {
        self.next - 1 - self.behind() - self.span.before as i64
    }

    /// The newest settled sample of which all spikes were given by [`Matching::take`].
    #[cfg(feature = "train")]
    pub(crate) fn told(&self) -> i64 {
        self.settled() - self.exclusive
    }

    /// The rest of a row that is settled, or was shortly ago.
    pub(crate) fn rest(&self, sample: i64) -> &[f32] {
        let at = self.slot(sample);
        &self.rest[at..at + self.padded]
    }

    fn slot(&self, sample: i64) -> usize {
        (sample as usize & (self.rows - 1)) * self.padded
    }

    pub(crate) fn moves(&self) -> impl Iterator<Item = UnitMove> + '_ {
        let constant = self.samples_per_constant;
        let first = |k: usize| k == 0 || self.units[k - 1].unit != self.units[k].unit;
        (0..self.units.len())
            .filter(move |k| constant > 0.0 && first(*k))
            .map(move |k| {
                let unit = &self.units[k];
                let apart = unit.weights.iter().zip(&unit.trained);
                let distance = apart.map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt();
                let size = unit.trained.iter().map(|w| w * w).sum::<f32>().sqrt();
                let since = (self.next - unit.last.max(0)) as f64 / constant;
                let rate_hz = unit.mass * (-since).exp() * self.rate_hz / constant;
                let changed = rate_hz * MAY_CHANGE < unit.trained_hz
                    || rate_hz > MAY_CHANGE * unit.trained_hz;
                UnitMove {
                    unit: unit.unit,
                    distance,
                    size,
                    rate_hz,
                    reported: distance > LEAST_MOVE.max(MAY_MOVE * size) || changed,
                }
            })
    }
}

/// Products of weights on the channels that both see, (RANK of `other`, RANK of `own`).
fn dots(other: &Unit, own: &Unit) -> [[f32; RANK]; RANK] {
    let (from, until) = (other.from.max(own.from), other.until.min(own.until));
    let part = |unit: &Unit, rank: usize| {
        let begin = rank * (unit.until - unit.from);
        begin + from - unit.from..begin + until - unit.from
    };
    std::array::from_fn(|r| {
        std::array::from_fn(|q| {
            let (a, b) = (&other.weights[part(other, r)], &own.weights[part(own, q)]);
            a.iter().zip(b).map(|(a, b)| a * b).sum()
        })
    })
}

/// Σ_i other (i) · own (i + lag) of all pairs of shapes.
fn products(other: &[f32], own: &[f32], length: usize, ahead: usize) -> Result<Vec<f32>> {
    let lags = 2 * ahead + 1;
    let mut sums = memory::filled("templates", 0.0, RANK * RANK * lags)?;
    let pairs = (0..RANK).flat_map(|r| (0..RANK).map(move |q| (r, q)));
    for ((r, q), sums) in pairs.zip(sums.chunks_exact_mut(lags)) {
        let (other, own) = (&other[r * length..][..length], &own[q * length..][..length]);
        for (l, sum) in sums.iter_mut().enumerate() {
            let both = if l >= ahead {
                other.iter().zip(own.get(l - ahead..).unwrap_or(&[]))
            } else {
                other.get(ahead - l..).unwrap_or(&[]).iter().zip(own)
            };
            *sum = both.map(|(a, b)| a * b).sum();
        }
    }
    Ok(sums)
}

/// Weighs a row by all templates, and scores them where their spans end with it.
struct Score<'a> {
    units: &'a [Unit],
    row: &'a [f32],
    weighed: &'a mut [f32],
    room: usize,
    at: usize,
    length: usize,
    scores: &'a mut [f32],
    kept: usize,
    slot: usize,
}

impl WithSimd for Score<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let planes = self.weighed.chunks_exact_mut(RANK * self.room);
        for ((unit, planes), scores) in
            (self.units.iter().zip(planes)).zip(self.scores.chunks_exact_mut(self.kept))
        {
            let width = unit.until - unit.from;
            let row = &self.row[unit.from..unit.until];
            let mut score = simd.splat_f32s(0.0);
            for ((plane, weights), shape) in (planes.chunks_exact_mut(self.room))
                .zip(unit.per_microvolt.chunks_exact(width))
                .zip(unit.shapes.chunks_exact(self.length))
            {
                plane[self.at] = simd.reduce_sum_f32s(product(simd, row, weights));
                let span = &plane[self.at + 1 - self.length..=self.at];
                score = simd.add_f32s(score, product(simd, span, shape));
            }
            scores[self.slot] = simd.reduce_sum_f32s(score);
        }
    }
}

#[inline(always)]
fn product<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> S::f32s {
    let ((a, _), (b, _)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let mut sums = [simd.splat_f32s(0.0); 2];
    for (at, (&a, &b)) in a.iter().zip(b).enumerate() {
        sums[at & 1] = simd.mul_add_f32s(a, b, sums[at & 1]);
    }
    simd.add_f32s(sums[0], sums[1])
}
