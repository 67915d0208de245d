// Frames to test with, as parse() gives them.
import type { Frame } from "../src/link/frame.ts";

export function frame(sequence: number, first: number, ticks: number, spikes: [number, number][] = [], more: Partial<Frame> = {}): Frame {
  const sorted = [...spikes].sort((a, b) => a[0] - b[0]);
  return {
    kind: 1, sequence, channels: 8, first, ticks,
    spikeTick: Uint16Array.from(sorted, s => s[0] - first), spikeChannel: Uint16Array.from(sorted, s => s[1]),
    estimate: Float32Array.from({ length: ticks }, (_, i) => first + i), truth: Float32Array.from({ length: ticks }, (_, i) => first + i + 1),
    rowTick: null, latency: new Uint32Array(104), counters: null, slow: [], rates: null, cells: null, trials: new Uint16Array(0), event: null, more: new Map(), ...more,
  };
}

export function random(seed: number): () => number {
  let s = seed >>> 0;
  return () => { s = (Math.imul(s, 1664525) + 1013904223) >>> 0; return s / 2 ** 32; };
}
