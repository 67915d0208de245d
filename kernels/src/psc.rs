//! `psc_recursive.cu`, `psc_convolve.cu`, `low_pass.cu` and `trains.cu`.

use crate::arguments::{In, InOut, InPlace, Out, kernel, n, rows};
use crate::layout::{Chunk, Complex, Filter, Mask, Sample, Section};

/// Words of a tile.
const THREADS: u128 = 128;

kernel! {
    /// What each tile does to every filter at rest.
    PSC_RECURSIVE, psc_tile_ends:
    struct PscTileEnds<'a, I: Sample = "INPUT"> {
        input: In<'a, I>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        tiles: i32,
        at: Out<'a, f32>,
        words: Out<'a, f32>,
    }
    needs |own, blocks| {
        input: rows(own.channels, own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        filter: n(own.filters),
        at: n(own.tiles) * n(own.channels) * n(own.filters),
        words: n(own.tiles) * n(own.channels) * n(own.filters) * THREADS,
    }
}

kernel! {
    /// From what the tiles do by themselves to the states at their starts.
    PSC_RECURSIVE, psc_carry:
    struct PscCarry<'a> {
        at: InOut<'a, f32>,
        words: In<'a, f32>,
        steps: i32,
        uncut: In<'a, u32>,
        tiles: i32,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        carry: InOut<'a, f64>,
    }
    needs |own, blocks| {
        at: n(own.tiles) * n(own.channels) * n(own.filters),
        words: n(own.tiles) * n(own.channels) * n(own.filters) * THREADS,
        uncut: n(own.tiles),
        filter: n(own.filters),
        carry: n(own.channels) * n(own.filters),
    }
}

kernel! {
    /// The responses to every filter.
    PSC_RECURSIVE, psc_responses:
    struct PscResponses<'a, I: Sample = "INPUT"> {
        input: In<'a, I>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        uncut: In<'a, u32>,
        filter: In<'a, Filter>,
        filters: i32,
        channels: i32,
        tiles: i32,
        at: In<'a, f32>,
        words: In<'a, f32>,
        output: Out<'a, f32>,
        output_stride: u64,
    }
    needs |own, blocks| {
        input: rows(own.channels, own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        uncut: n(own.tiles),
        filter: n(own.filters),
        at: n(own.tiles) * n(own.channels) * n(own.filters),
        words: n(own.tiles) * n(own.channels) * n(own.filters) * THREADS,
        output: rows(i64::from(own.channels) * i64::from(own.filters), own.output_stride, own.steps),
    }
}

kernel! {
    /// Cuts channels into rows of a batch of transforms.
    PSC_CONVOLVE, convolve_load:
    struct ConvolveLoad<'a, I: Sample = "INPUT"> {
        input: In<'a, I>,
        stride: u64,
        chunk: In<'a, Chunk>,
        chunks: i32,
        first_item: i64,
        items: i64,
        parts: i32,
        length: i32,
        pitch: i32,
        rows: Out<'a, f32>,
    }
    needs |own, blocks| {
        chunk: n(own.chunks),
        rows: n(blocks.0) / n(own.parts).max(1) * n(own.pitch),
    }
}

kernel! {
    /// The products of rows with every filter's spectrum; those of one filter may take the rows' place.
    PSC_CONVOLVE, convolve_multiply:
    struct ConvolveMultiply<'a> {
        rows: InPlace<'a, f32>,
        spectra: In<'a, Complex>,
        filters: i32,
        batch: i32,
        bins: i32,
        pitch: i32,
        products: InOut<'a, f32>,
    }
    needs |own, blocks| {
        rows: n(own.batch) * n(own.pitch),
        spectra: n(own.filters) * n(own.bins),
        products: n(own.filters) * n(own.batch) * n(own.pitch),
    }
}

kernel! {
    /// Keeps what is whole of the rows that come back.
    PSC_CONVOLVE, convolve_store:
    struct ConvolveStore<'a> {
        products: In<'a, f32>,
        chunk: In<'a, Chunk>,
        chunks: i32,
        first_item: i64,
        items: i64,
        parts: i32,
        filters: i32,
        batch: i32,
        pitch: i32,
        output: InOut<'a, f32>,
        output_stride: u64,
    }
    needs |own, blocks| {
        products: n(own.filters) * n(own.batch) * n(own.pitch),
        chunk: n(own.chunks),
    }
}

kernel! {
    /// What each tile does to sections at rest.
    LOW_PASS, low_pass_tile_ends:
    struct LowPassTileEnds<'a, I: Sample = "INPUT"> {
        input: In<'a, I>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        sections: In<'a, Section>,
        powers: In<'a, f64>,
        rows: i32,
        tiles: i32,
        at: Out<'a, f64>,
        words: Out<'a, f64>,
    }
    needs |own, blocks| {
        input: rows(own.rows, own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        at: 2 * n(own.tiles) * n(own.rows),
        words: 2 * n(own.tiles) * n(own.rows) * THREADS,
    }
}

kernel! {
    /// From what the tiles do by themselves to the delays at their starts.
    LOW_PASS, low_pass_carry:
    struct LowPassCarry<'a> {
        at: InOut<'a, f64>,
        words: In<'a, f64>,
        steps: i32,
        uncut: In<'a, u32>,
        tiles: i32,
        sections: In<'a, Section>,
        powers: In<'a, f64>,
        rows: i32,
        carry: InOut<'a, f64>,
    }
    needs |own, blocks| {
        at: 2 * n(own.tiles) * n(own.rows),
        words: 2 * n(own.tiles) * n(own.rows) * THREADS,
        uncut: n(own.tiles),
        carry: 2 * n(own.rows),
    }
}

kernel! {
    /// The filtered rows; the output may be the input.
    LOW_PASS, low_pass_filter:
    struct LowPassFilter<'a, I: Sample = "INPUT", O: Sample = "OUTPUT"> {
        input: InPlace<'a, I>,
        stride: u64,
        steps: i32,
        mask: In<'a, Mask>,
        uncut: In<'a, u32>,
        sections: In<'a, Section>,
        powers: In<'a, f64>,
        rows: i32,
        tiles: i32,
        at: In<'a, f64>,
        words: In<'a, f64>,
        output: InOut<'a, O>,
        output_stride: u64,
    }
    needs |own, blocks| {
        input: rows(own.rows, own.stride, own.steps),
        mask: n(own.tiles) * THREADS,
        uncut: n(own.tiles),
        at: 2 * n(own.tiles) * n(own.rows),
        words: 2 * n(own.tiles) * n(own.rows) * THREADS,
        output: rows(own.rows, own.output_stride, own.steps),
    }
}

kernel! {
    /// Spikes as trains of counts, one row a channel.
    TRAINS, trains_event:
    struct TrainsEvent<'a> {
        channel: In<'a, u16>,
        step: In<'a, u8>,
        // Read with `-DWEIGHTED` alone.
        weight: In<'a, f32>,
        starts: In<'a, u32>,
        first_channel: i32,
        channels: i32,
        stride: u64,
        trains: InOut<'a, f32>,
    }
    needs |own, blocks| {
        starts: n(blocks.0) + 1,
        trains: rows(own.channels, own.stride, 32 * u64::from(blocks.0)),
    }
}
