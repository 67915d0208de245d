//! `gram_event.cu`, `gram_dense.cu` and `responses_*.cu`.

use crate::arguments::{In, InOut, Out, kernel, n, rows};
use crate::layout::{Block, Counts, Filter, Pair, Sample, Target};

kernel! {
    /// Sorts each chunk's spikes by channel.
    GRAM_EVENT, sort_events:
    struct SortEvents<'a> {
        channel: In<'a, u16>,
        tick: In<'a, u8>,
        block_events: In<'a, u32>,
        blocks: i32,
        channels: i32,
        ticks: Out<'a, u16>,
        offsets: Out<'a, u32>,
    }
    needs |own, blocks| {
        block_events: n(own.blocks) + 1,
        offsets: n(blocks.0) * (n(own.channels) + 1),
    }
}

kernel! {
    /// States of every column at the start of each slice.
    GRAM_EVENT, states_at_slices:
    struct StatesAtSlices<'a> {
        ticks: In<'a, u16>,
        offsets: In<'a, u32>,
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        slice_chunk: In<'a, i32>,
        window: f32,
        states: Out<'a, f32>,
    }
    needs |own, blocks| {
        filter: n(own.filters),
        slice_chunk: n(blocks.1),
        states: n(blocks.1) * n(own.channels) * n(own.filters),
    }
}

kernel! {
    /// Tiles of one half of Γ over slices of time.
    GRAM_EVENT, gram_event:
    struct GramEvent<'a> {
        ticks: In<'a, u16>,
        offsets: In<'a, u32>,
        block: In<'a, Block>,
        chunks: i32,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        slice_chunk: In<'a, i32>,
        states: In<'a, f32>,
        table: In<'a, f64>,
        pair: In<'a, Pair>,
        tile_rows: i32,
        kept: i32,
        first_channel: i32,
        row_channels: i32,
        first_column: i32,
        column_count: i32,
        partial: Out<'a, f64>,
    }
    needs |own, blocks| {
        offsets: n(own.chunks) * (n(own.channels) + 1),
        filter: n(own.filters),
        slice_chunk: n(blocks.2) + 1,
        states: n(blocks.2) * n(own.channels) * n(own.filters),
        pair: n(own.filters) * n(own.filters),
        partial: n(blocks.2) * n(own.row_channels) * n(own.filters) * n(own.column_count),
    }
}

kernel! {
    /// Γ from its two halves.
    GRAM_EVENT, combine_slices:
    struct CombineSlices<'a> {
        partial: In<'a, f64>,
        mirrored: In<'a, f64>,
        slices: i32,
        rows: i32,
        columns: i32,
        gram: Out<'a, f64>,
    }
    needs |own, blocks| {
        partial: n(own.slices) * n(own.rows) * n(own.columns),
        mirrored: n(own.slices) * n(own.rows) * n(own.columns),
        gram: n(own.rows) * n(own.columns),
    }
}

kernel! {
    /// The behaviour's future states within each block.
    GRAM_EVENT, behavior_block_states:
    struct BehaviorBlockStates<'a> {
        behavior: In<'a, f32>,
        block: In<'a, Block>,
        blocks: i32,
        filter: In<'a, Filter>,
        outputs: i32,
        first_row: i32,
        future: Out<'a, f64>,
    }
    needs |own, blocks| {
        block: n(own.blocks),
        filter: (n(own.first_row) + n(blocks.1)).div_ceil(n(own.outputs) + 1),
        future: n(blocks.1) * n(own.blocks),
    }
}

kernel! {
    /// Turns future states into those just behind each block.
    GRAM_EVENT, behavior_carry:
    struct BehaviorCarry<'a> {
        block: In<'a, Block>,
        blocks: i32,
        filter: In<'a, Filter>,
        outputs: i32,
        first_row: i32,
        future: InOut<'a, f64>,
    }
    needs |own, blocks| {
        block: n(own.blocks) + 1,
        filter: (n(own.first_row) + n(blocks.0)).div_ceil(n(own.outputs) + 1),
        future: n(blocks.0) * n(own.blocks),
    }
}

kernel! {
    /// The behaviour correlated with each filter, at every step.
    GRAM_EVENT, behavior_correlate:
    struct BehaviorCorrelate<'a> {
        behavior: In<'a, f32>,
        block: In<'a, Block>,
        blocks: i32,
        filter: In<'a, Filter>,
        outputs: i32,
        first_row: i32,
        future: In<'a, f64>,
        g: Out<'a, f64>,
    }
    needs |own, blocks| {
        block: n(own.blocks),
        filter: (n(own.first_row) + n(blocks.1)).div_ceil(n(own.outputs) + 1),
        future: n(blocks.1) * n(own.blocks),
        g: n(blocks.1) * n(own.blocks) * 32,
    }
}

kernel! {
    /// Υ and Σa: each channel's sum of the correlated behaviour at its spikes.
    GRAM_EVENT, upsilon_event:
    struct UpsilonEvent<'a> {
        ticks: In<'a, u16>,
        offsets: In<'a, u32>,
        chunks: i32,
        channels: i32,
        filters: i32,
        outputs: i32,
        blocks: i32,
        first_row: i32,
        g: In<'a, f64>,
        upsilon: InOut<'a, f64>,
    }
    needs |own, blocks| {
        offsets: n(own.chunks) * (n(own.channels) + 1),
        g: n(blocks.1) * n(own.blocks) * 32,
        upsilon: n(own.channels) * n(own.filters) * (n(own.outputs) + 1),
    }
}

kernel! {
    /// Σx and Σx² over runs of blocks.
    GRAM_EVENT, behavior_sums:
    struct BehaviorSums<'a> {
        behavior: In<'a, f32>,
        block: In<'a, Block>,
        blocks: i32,
        outputs: i32,
        sums: Out<'a, f64>,
    }
    needs |own, blocks| {
        block: n(own.blocks),
        sums: n(blocks.0) * n(own.outputs) * 2,
    }
}

kernel! {
    /// Σx, Σx² and x̄ from those.
    GRAM_EVENT, behavior_mean:
    struct BehaviorMean<'a> {
        sums: In<'a, f64>,
        parts: i32,
        outputs: i32,
        steps: f64,
        totals: Out<'a, f64>,
        mean: Out<'a, f64>,
    }
    needs |own, blocks| {
        sums: n(own.parts) * n(own.outputs) * 2,
        totals: 2 * n(own.outputs),
        mean: n(own.outputs),
    }
}

kernel! {
    /// From the states that chunks leave by themselves to those at their starts.
    GRAM_DENSE, carry_states:
    struct CarryStates<'a> {
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        first_column: i32,
        columns: i32,
        chunks: i32,
        states: InOut<'a, f32>,
        carry: InOut<'a, f64>,
    }
    needs |own, blocks| {
        filter: n(own.filters),
        states: n(own.chunks) * n(own.columns),
        carry: n(own.columns),
    }
}

kernel! {
    /// Adds a round's products in f64.
    GRAM_DENSE, add_products:
    struct AddProducts<'a> {
        products: In<'a, f32>,
        parts: i32,
        rows: i32,
        columns: i32,
        panel: i32,
        sum: InOut<'a, f64>,
    }
    needs |own, blocks| {
        products: n(own.parts) * n(own.rows) * n(own.columns),
        sum: n(own.rows) * n(own.columns),
    }
}

kernel! {
    /// Adds what only one triangle of was made, and its mirror image.
    GRAM_DENSE, finish_gram:
    struct FinishGram<'a> {
        cross: In<'a, f32>,
        parts: i32,
        n: i32,
        gram: InOut<'a, f64>,
    }
    needs |own, blocks| {
        cross: n(own.parts) * n(own.n) * n(own.n),
        gram: n(own.n) * n(own.n),
    }
}

kernel! {
    /// Adds a round's Υ and Σa.
    GRAM_DENSE, add_upsilon:
    struct AddUpsilon<'a> {
        partial: In<'a, f64>,
        chunks: i32,
        columns: i32,
        first_column: i32,
        outputs: i32,
        upsilon: InOut<'a, f64>,
    }
    needs |own, blocks| {
        partial: n(own.chunks) * n(own.columns) * (n(own.outputs) + 1),
        upsilon: (n(own.first_column) + n(own.columns)) * (n(own.outputs) + 1),
    }
}

kernel! {
    /// Centres from a round's Σa.
    GRAM_DENSE, mean_responses:
    struct MeanResponses<'a> {
        partial: In<'a, f64>,
        chunks: i32,
        columns: i32,
        first_column: i32,
        outputs: i32,
        steps: f64,
        centre: InOut<'a, f32>,
    }
    needs |own, blocks| {
        partial: n(own.chunks) * n(own.columns) * (n(own.outputs) + 1),
        centre: n(own.first_column) + n(own.columns),
    }
}

kernel! {
    /// Says whether a centre lies far from the mean.
    GRAM_DENSE, find_far_centre:
    struct FindFarCentre<'a> {
        centre: In<'a, f32>,
        gram: In<'a, f64>,
        steps: f64,
        first_row: i32,
        rows: i32,
        far: InOut<'a, i32>,
    }
    needs |own, blocks| {
        centre: n(own.first_row) + n(own.rows),
        gram: n(own.rows) * n(own.rows),
        far: 1,
    }
}

kernel! {
    /// Centres from Σa of all steps.
    GRAM_DENSE, centre_at_mean:
    struct CentreAtMean<'a> {
        sums: In<'a, f64>,
        outputs: i32,
        steps: f64,
        first_row: i32,
        rows: i32,
        centre: InOut<'a, f32>,
    }
    needs |own, blocks| {
        sums: (n(own.first_row) + n(own.rows)) * (n(own.outputs) + 1),
        centre: n(own.first_row) + n(own.rows),
    }
}

kernel! {
    /// Puts back what was taken from the responses.
    GRAM_DENSE, put_centre_back:
    struct PutCentreBack<'a> {
        centre: In<'a, f32>,
        sums: In<'a, f64>,
        outputs: i32,
        steps: f64,
        first_row: i32,
        first_column: i32,
        columns: i32,
        gram: InOut<'a, f64>,
    }
    needs |own, blocks| {
        centre: (n(own.first_row) + n(blocks.1)).max(n(own.first_column) + n(own.columns)),
        sums: (n(own.first_row) + n(blocks.1)).max(n(own.first_column) + n(own.columns))
            * (n(own.outputs) + 1),
        gram: n(blocks.1) * n(own.columns),
    }
}

kernel! {
    /// a += b, from element `first` of a on.
    GRAM_DENSE, add_into:
    struct AddInto<'a> {
        b: In<'a, f64>,
        count: u64,
        first: u64,
        a: InOut<'a, f64>,
    }
    needs |own, blocks| {
        b: n(own.count),
        a: n(own.first) + n(own.count),
    }
}

kernel! {
    /// States that each chunk leaves by its own counts.
    RESPONSES_COUNTS, chunk_states_counts:
    struct ChunkStatesCounts<'a, C: Sample = "COUNT"> {
        from: Counts<'a, C>,
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        first_column: i32,
        columns: i32,
        states: Out<'a, f32>,
    }
    needs |own, blocks| {
        filter: n(own.filters),
        states: n(blocks.1) * n(own.columns),
    }
}

kernel! {
    /// A round's responses from counts.
    RESPONSES_COUNTS, responses_counts:
    struct ResponsesCounts<'a, C: Sample = "COUNT"> {
        from: Counts<'a, C>,
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        states: In<'a, f32>,
        first_column: i32,
        target: Target<'a>,
    }
    needs |own, blocks| {
        filter: n(own.filters),
        states: n(blocks.1) * n(own.target.columns()),
        target: n(blocks.1),
    }
}

kernel! {
    /// States that each chunk leaves by its own spikes.
    RESPONSES_EVENT, chunk_states_event:
    struct ChunkStatesEvent<'a> {
        ticks: In<'a, u16>,
        offsets: In<'a, u32>,
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        first_column: i32,
        columns: i32,
        states: Out<'a, f32>,
    }
    needs |own, blocks| {
        offsets: n(blocks.1) * (n(own.channels) + 1),
        filter: n(own.filters),
        states: n(blocks.1) * n(own.columns),
    }
}

kernel! {
    /// A round's responses from spikes.
    RESPONSES_EVENT, responses_event:
    struct ResponsesEvent<'a> {
        ticks: In<'a, u16>,
        offsets: In<'a, u32>,
        block: In<'a, Block>,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        states: In<'a, f32>,
        first_column: i32,
        target: Target<'a>,
    }
    needs |own, blocks| {
        offsets: n(blocks.1) * (n(own.channels) + 1),
        filter: n(own.filters),
        states: n(blocks.1) * n(own.target.columns()),
        target: n(blocks.1),
    }
}

kernel! {
    /// Responses that are there, into a round's operand.
    RESPONSES_GIVEN, responses_given:
    struct ResponsesGiven<'a> {
        responses: In<'a, f32>,
        length: u64,
        block: In<'a, Block>,
        delay: i32,
        first_column: i32,
        target: Target<'a>,
    }
    needs |own, blocks| {
        responses: rows(
            i64::from(own.first_column) + i64::from(own.target.columns()),
            own.length,
            0u64,
        ),
        target: n(blocks.1),
    }
}
