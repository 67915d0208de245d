import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FrameError, More, STEP_BEFORE, bucketBegins, floats, numbers, parse, parseAll } from "../src/link/frame.ts";
import { follow } from "../src/link/frames.ts";
import { random } from "./make.ts";

const golden = (name: string): ArrayBuffer => {
  const bytes = readFileSync(`${process.env["BETZ_GOLDEN"]}/${name}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
};

test("the frames that Rust writes are read", () => {
  const [step, event, cells, ...none] = parseAll(golden("message.bin"));
  assert.equal(none.length, 0);
  assert.deepEqual([step!.kind, step!.sequence, step!.channels, step!.first, step!.ticks], [1, 7, 3, 1_000_000_000_123, 5]);
  assert.deepEqual([...step!.spikeTick], [0, 2, 4]);
  assert.deepEqual([...step!.spikeChannel], [2, 0, 1]);
  assert.deepEqual([...step!.estimate], [1.5, -2, 3.25, NaN]);
  assert.deepEqual([...step!.truth!], [1, 2, 3, 4]);
  assert.deepEqual(step!.counters, { steps: 10, spikes: 20, unknown: 1, dropped: 2, late: 3, misses: 4, swaps: 5, notShown: 6 });
  assert.deepEqual(step!.slow, [{ offset: STEP_BEFORE, ns: 0x51234 }, { offset: 2, ns: 7 }]);
  assert.deepEqual([...step!.rowTick!], [0, 4]);
  assert.deepEqual([...step!.rates!], [0.5, 20, 0]);
  assert.deepEqual([...step!.trials], [4]);
  const bucket = step!.latency.findIndex(n => n === 4);
  assert.ok(bucketBegins(bucket) <= 1000 && 1000 < bucketBegins(bucket + 1));
  assert.deepEqual([event!.kind, event!.first, event!.event], [2, -5, { type: "mark", text: "grüße" }]);
  assert.deepEqual([...cells!.spikeChannel], [69_999, 65_536]);
  assert.deepEqual([cells!.cells!.rows, cells!.cells!.columns, cells!.cells!.wide, [...cells!.cells!.counts]], [2, 2, 2, [1, 0, 0, 255]]);
});

test("what is cut short is refused at every byte", () => {
  const whole = golden("step.bin");
  for (let n = 0; n < whole.byteLength; n++) assert.throws(() => parse(whole.slice(0, n)), FrameError, `${n} bytes`);
});

test("another version is told apart from damage", () => {
  const bytes = golden("step.bin");
  new DataView(bytes).setUint16(4, 2, true);
  assert.throws(() => parse(bytes), (e: FrameError) => e.version && /version 2/.test(e.message));
  new DataView(bytes).setUint32(0, 1, true);
  assert.throws(() => parse(bytes), (e: FrameError) => !e.version);
});

test("the edges of a window are read, too", () => {
  const [f] = parse(golden("network.bin"));
  assert.deepEqual([f.kind, f.channels, f.first, f.ticks], [8, 4, 2, 3]);
  assert.deepEqual([[...numbers(f, More.I)], [...numbers(f, More.J)], [...numbers(f, More.Undefined)]], [[0, 1, 0], [1, 3, 3], [2]]);
  assert.deepEqual([...floats(f, More.Value)], [0.9, -0.5, 0.25].map(Math.fround));
  assert.deepEqual([...numbers(f, More.Place)], []);
});

test("no byte that is changed makes it fall otherwise than in words", () => {
  const next = random(5), whole = new Uint8Array(golden("message.bin"));
  for (let n = 0; n < 3000; n++) {
    const bytes = whole.slice();
    for (let k = 0; k <= n % 4; k++) bytes[Math.floor(next() * bytes.length)] = Math.floor(next() * 256);
    try { parseAll(bytes.buffer); } catch (e) { assert.ok(e instanceof FrameError || e instanceof RangeError && /offset|length|alignment|bounds/i.test(e.message), String(e)); }
  }
});

test("frames that come in pieces are read when they are whole", async () => {
  const whole = new Uint8Array(golden("message.bin")), kinds: number[] = [], before = globalThis.fetch;
  for (const size of [1, 7, 64, 100_000]) {
    kinds.length = 0;
    globalThis.fetch = (async () => new Response(new ReadableStream({ start(c) { for (let at = 0; at < whole.length; at += size) c.enqueue(whole.slice(at, at + size)); c.close(); } }))) as typeof fetch;
    await follow("/", new AbortController().signal, f => kinds.push(f.kind));
    assert.deepEqual(kinds, [1, 2, 5], `${size} bytes`);
  }
  globalThis.fetch = (async () => new Response(whole.slice(0, whole.length - 8) as BodyInit)) as typeof fetch;
  await assert.rejects(follow("/", new AbortController().signal, () => undefined), /cut short/);
  globalThis.fetch = before;
});
