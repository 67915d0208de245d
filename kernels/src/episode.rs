//! `episode_*.cu`.

use crate::arguments::{In, InOut, Out, kernel, n};
use crate::layout::{Entry, Link, Node, Step, Tally, Tick, Tuple};

kernel! {
    /// A warp takes one run of patterns through one part of the time and leaves tables.
    EPISODE_LATEST_START, episode_walk:
    struct EpisodeWalk<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        cuts: In<'a, T>,
        index: In<'a, u32>,
        cells: u32,
        parts: u32,
        nodes: In<'a, Node<T>>,
        run_nodes: In<'a, u32>,
        span: In<'a, i64>,
        runs: u32,
        levels: u32,
        capacity: u32,
        lists: InOut<'a, T>,
        slots: u32,
        tables: Out<'a, Entry<T>>,
        lengths: InOut<'a, u32>,
        longest: InOut<'a, u32>,
    }
    needs |own, blocks| {
        cuts: n(own.cells) + 1,
        run_nodes: n(own.runs) + 1,
        span: n(own.runs),
        longest: 1,
    }
}

kernel! {
    /// The counts from the tables.
    EPISODE_LATEST_START, episode_greedy:
    struct EpisodeGreedy<'a, T: Tick = "WIDE"> {
        tables: In<'a, Entry<T>>,
        lengths: In<'a, u32>,
        slots: u32,
        parts: u32,
        patterns: u32,
        counts: Out<'a, u32>,
    }
    needs |own, blocks| {
        tables: n(own.patterns) * n(own.parts) * n(own.slots),
        lengths: n(own.patterns) * n(own.parts),
        counts: n(own.patterns),
    }
}

kernel! {
    /// All continuations of prefixes at once, a warp a prefix.
    EPISODE_SIBLINGS, episode_siblings:
    struct EpisodeSiblings<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        cuts: In<'a, T>,
        index: In<'a, u32>,
        cells: u32,
        parts: u32,
        events: In<'a, u64>,
        event_count: u32,
        symbol_bits: u32,
        origin: i64,
        links: In<'a, Link<T>>,
        size: u32,
        prefixes: u32,
        span: i64,
        lows: In<'a, T>,
        highs: In<'a, T>,
        intervals: u32,
        symbols: u32,
        capacity: u32,
        lists: InOut<'a, T>,
        counts: Out<'a, u32>,
    }
    needs |own, blocks| {
        cuts: n(own.cells) + 1,
        events: n(own.event_count),
        links: n(own.prefixes) * n(own.size),
        lows: n(own.intervals),
        highs: n(own.intervals),
        counts: n(own.prefixes) * n(own.intervals) * n(own.symbols),
    }
}

kernel! {
    /// Every event moved.
    EPISODE_SURROGATE, surrogate_dither:
    struct SurrogateDither<'a> {
        events: In<'a, u64>,
        count: u32,
        symbol_bits: u32,
        firsts: In<'a, i64>,
        lasts: In<'a, i64>,
        segments: u32,
        origin: i64,
        key: u64,
        delta: i64,
        moved: Out<'a, u64>,
    }
    needs |own, blocks| {
        events: n(own.count),
        firsts: n(own.segments),
        lasts: n(own.segments),
        moved: n(own.count),
    }
}

kernel! {
    /// The events' ticks alone.
    EPISODE_SURROGATE, surrogate_ticks:
    struct SurrogateTicks<'a, T: Tick = "WIDE"> {
        events: In<'a, u64>,
        count: u32,
        symbol_bits: u32,
        ticks: Out<'a, T>,
    }
    needs |own, blocks| {
        events: n(own.count),
        ticks: n(own.count),
    }
}

kernel! {
    /// Where in the ticks each symbol's cells begin.
    EPISODE_SURROGATE, surrogate_index:
    struct SurrogateIndex<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        offsets: In<'a, u32>,
        symbols: u32,
        cuts: In<'a, T>,
        cells: u32,
        index: Out<'a, u32>,
    }
    needs |own, blocks| {
        offsets: n(own.symbols) + 1,
        cuts: n(own.cells) + 1,
        index: n(own.symbols) * (n(own.cells) + 1),
    }
}

kernel! {
    /// Algorithm 1, a thread an episode.
    EPISODE_SERIAL, episode_serial:
    struct EpisodeSerial<'a> {
        events: In<'a, u64>,
        event_count: u32,
        symbol_bits: u32,
        sizes: In<'a, u32>,
        symbols: In<'a, u32>,
        lows: In<'a, i64>,
        highs: In<'a, i64>,
        episodes: u32,
        places: u32,
        capacity: u32,
        lists: InOut<'a, i64>,
        counts: Out<'a, u32>,
    }
    needs |own, blocks| {
        events: n(own.event_count),
        sizes: n(own.episodes),
        symbols: n(own.episodes) * n(own.places),
        lows: n(own.episodes) * n(own.places),
        highs: n(own.episodes) * n(own.places),
        lists: n(own.episodes) * n(own.places).saturating_sub(1) * n(own.capacity),
        counts: n(own.episodes),
    }
}

kernel! {
    /// At least the count of each episode.
    EPISODE_TWO_PASS, episode_upper_bound:
    struct EpisodeUpperBound<'a> {
        events: In<'a, u64>,
        event_count: u32,
        symbol_bits: u32,
        sizes: In<'a, u32>,
        symbols: In<'a, u32>,
        highs: In<'a, i64>,
        episodes: u32,
        places: u32,
        bounds: Out<'a, u32>,
    }
    needs |own, blocks| {
        events: n(own.event_count),
        sizes: n(own.episodes),
        symbols: n(own.episodes) * n(own.places),
        highs: n(own.episodes) * n(own.places),
        bounds: n(own.episodes),
    }
}

kernel! {
    /// An automaton for every segment and split of every episode.
    EPISODE_MAP_CONCAT, episode_map:
    struct EpisodeMap<'a> {
        events: In<'a, u64>,
        event_count: u32,
        symbol_bits: u32,
        sizes: In<'a, u32>,
        symbols: In<'a, u32>,
        lows: In<'a, i64>,
        highs: In<'a, i64>,
        episodes: u32,
        places: u32,
        cuts: In<'a, i64>,
        entries: In<'a, u32>,
        exits: In<'a, u32>,
        capacity: u32,
        lists: InOut<'a, i64>,
        tuples: Out<'a, Tuple>,
        overflown: InOut<'a, u32>,
    }
    needs |own, blocks| {
        events: n(own.event_count),
        sizes: n(own.episodes),
        symbols: n(own.episodes) * n(own.places),
        lows: n(own.episodes) * n(own.places),
        highs: n(own.episodes) * n(own.places),
        cuts: n(blocks.1) + 1,
        entries: n(blocks.1),
        exits: n(blocks.1),
        tuples: n(blocks.1) * n(own.episodes) * n(own.places),
        overflown: n(own.episodes),
    }
}

kernel! {
    /// Joins what the automata of each segment saw, a warp an episode.
    EPISODE_MAP_CONCAT, episode_concat:
    struct EpisodeConcat<'a> {
        events: In<'a, u64>,
        event_count: u32,
        symbol_bits: u32,
        sizes: In<'a, u32>,
        symbols: In<'a, u32>,
        lows: In<'a, i64>,
        highs: In<'a, i64>,
        episodes: u32,
        places: u32,
        cuts: In<'a, i64>,
        exits: In<'a, u32>,
        segments: u32,
        capacity: u32,
        lists: InOut<'a, i64>,
        tuples: In<'a, Tuple>,
        counts: InOut<'a, u32>,
        overflown: InOut<'a, u32>,
        recounted: InOut<'a, u32>,
    }
    needs |own, blocks| {
        events: n(own.event_count),
        sizes: n(own.episodes),
        symbols: n(own.episodes) * n(own.places),
        lows: n(own.episodes) * n(own.places),
        highs: n(own.episodes) * n(own.places),
        cuts: n(own.segments) + 1,
        exits: n(own.segments),
        tuples: n(own.segments) * n(own.episodes) * n(own.places),
        counts: n(own.episodes),
        overflown: n(own.episodes),
        recounted: 1,
    }
}

kernel! {
    /// The first list: every event of each episode's first step.
    EPISODE_LOCAL_TRACKING, track_begin:
    struct TrackBegin<'a, T: Tick = "WIDE"> {
        steps: In<'a, Step<T>>,
        firsts: In<'a, u32>,
        episodes: u32,
        entries: u32,
        at: Out<'a, u32>,
        other: Out<'a, u32>,
        episode: Out<'a, u32>,
    }
    needs |own, blocks| {
        steps: n(own.episodes),
        firsts: n(own.episodes),
        at: n(own.entries),
        other: n(own.entries),
        episode: n(own.entries),
    }
}

kernel! {
    /// How many finds each entry has.
    EPISODE_LOCAL_TRACKING, track_count:
    struct TrackCount<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        steps: In<'a, Step<T>>,
        entries: u32,
        at: In<'a, u32>,
        episode: In<'a, u32>,
        counts: Out<'a, u32>,
        tally: InOut<'a, Tally>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        episode: n(own.entries),
        counts: n(own.entries),
        tally: 1,
    }
}

kernel! {
    /// Writes each entry's finds where its offset says.
    EPISODE_LOCAL_TRACKING, track_write:
    struct TrackWrite<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        steps: In<'a, Step<T>>,
        entries: u32,
        at: In<'a, u32>,
        other: In<'a, u32>,
        episode: In<'a, u32>,
        offsets: In<'a, u32>,
        new_at: Out<'a, u32>,
        new_other: Out<'a, u32>,
        new_episode: Out<'a, u32>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        other: n(own.entries),
        episode: n(own.entries),
        offsets: n(own.entries),
        new_other: n(own.new_at.len()),
        new_episode: n(own.new_at.len()),
    }
}

kernel! {
    /// Fills each entry's portion with its finds, and flags them.
    EPISODE_LOCAL_TRACKING, track_fill:
    struct TrackFill<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        steps: In<'a, Step<T>>,
        entries: u32,
        at: In<'a, u32>,
        episode: In<'a, u32>,
        portion: u32,
        places: Out<'a, u32>,
        flags: Out<'a, u32>,
        tally: InOut<'a, Tally>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        episode: n(own.entries),
        places: n(own.entries) * n(own.portion),
        flags: n(own.entries) * n(own.portion),
        tally: 1,
    }
}

kernel! {
    /// Compacts flagged places into the new list.
    EPISODE_LOCAL_TRACKING, track_pick:
    struct TrackPick<'a> {
        filled: u32,
        portion: u32,
        places: In<'a, u32>,
        sums: In<'a, u32>,
        other: In<'a, u32>,
        episode: In<'a, u32>,
        new_at: Out<'a, u32>,
        new_other: Out<'a, u32>,
        new_episode: Out<'a, u32>,
    }
    needs |own, blocks| {
        places: n(own.filled),
        sums: n(own.filled) + 1,
        other: n(own.filled) / n(own.portion).max(1),
        episode: n(own.filled) / n(own.portion).max(1),
    }
}

kernel! {
    /// Reserves room for each block's finds and writes those that fit.
    EPISODE_LOCAL_TRACKING, track_reserve:
    struct TrackReserve<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        steps: In<'a, Step<T>>,
        entries: u32,
        at: In<'a, u32>,
        other: In<'a, u32>,
        episode: In<'a, u32>,
        room: u32,
        tally: InOut<'a, Tally>,
        new_at: Out<'a, u32>,
        new_other: Out<'a, u32>,
        new_episode: Out<'a, u32>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        other: n(own.entries),
        episode: n(own.entries),
        tally: 1,
        new_at: n(own.room),
        new_other: n(own.room),
        new_episode: n(own.room),
    }
}

kernel! {
    /// The best entry of each event.
    EPISODE_LOCAL_TRACKING, track_best:
    struct TrackBest<'a, T: Tick = "WIDE"> {
        steps: In<'a, Step<T>>,
        slots: In<'a, u32>,
        entries: u32,
        at: In<'a, u32>,
        other: In<'a, u32>,
        episode: In<'a, u32>,
        best: InOut<'a, u32>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        other: n(own.entries),
        episode: n(own.entries),
    }
}

kernel! {
    /// Which events have a best entry.
    EPISODE_LOCAL_TRACKING, track_keep:
    struct TrackKeep<'a> {
        slot_count: u32,
        best: In<'a, u32>,
        kept: Out<'a, u32>,
    }
    needs |own, blocks| {
        best: n(own.slot_count),
        kept: n(own.slot_count),
    }
}

kernel! {
    /// The best entries in the order of episodes and events.
    EPISODE_LOCAL_TRACKING, track_collect:
    struct TrackCollect<'a, T: Tick = "WIDE"> {
        steps: In<'a, Step<T>>,
        slots: In<'a, u32>,
        episodes: u32,
        slot_count: u32,
        best: In<'a, u32>,
        sums: In<'a, u32>,
        at: Out<'a, u32>,
        other: Out<'a, u32>,
        episode: Out<'a, u32>,
    }
    needs |own, blocks| {
        steps: n(own.episodes),
        slots: n(own.episodes),
        best: n(own.slot_count),
        sums: n(own.slot_count),
    }
}

kernel! {
    /// The interval scheduling, a warp an episode.
    EPISODE_LOCAL_TRACKING, track_schedule:
    struct TrackSchedule<'a, T: Tick = "WIDE"> {
        ticks: In<'a, T>,
        entries: u32,
        at: In<'a, u32>,
        other: In<'a, u32>,
        episode: In<'a, u32>,
        episodes: u32,
        counts: Out<'a, u32>,
    }
    needs |own, blocks| {
        at: n(own.entries),
        other: n(own.entries),
        episode: n(own.entries),
        counts: n(own.episodes),
    }
}
