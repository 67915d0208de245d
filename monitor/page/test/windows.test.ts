import assert from "node:assert/strict";
import { test } from "node:test";
import { FASTEST, Pace, START, changed, changes, countIn, countOf, delaysShown, endOf, indexAt, missing, prune, queryOf, readDelays, readSettings, writeSettings, type Numbered, type Settings } from "../src/mined/played.ts";

const of = (window: number, step: number): Settings => ({ ...START, window, step });

test("settings survive the address, and invalid ones are those of the start", () => {
  const all = { window: 2.5, step: 0.5, least: 7, longest: 3, intervals: [[0, 0.005], [0.005, 0.01]] as [number, number][] };
  assert.equal(writeSettings(all), "2.5,0.5,7,3,0,0.005,0.005,0.01");
  assert.deepEqual(readSettings(writeSettings(all)), all);
  for (const text of [undefined, "", "1,1,1", "0,1,5,3,0,0.01", "1,1,5,1,0,0.01", "1,1,5,3,0.01,0.004", "1,1,5,3,0,0.01,0.02", "1,x,5,3,0,0.01"]) assert.deepEqual(readSettings(text), START, text);
  assert.equal(queryOf(all, 2), "source=2&window=2.5&step=0.5&threshold=7&max_size=3&intervals=0,0.005,0.005,0.01");
  assert.equal(changed(all, { least: 0.5 }), null);
  assert.equal(changed(all, { window: NaN }), null);
});

test("delays are read in milliseconds as they are written", () => {
  assert.deepEqual(readDelays(" 4-6, 6 – 10 ms"), [[0.004, 0.006], [0.006, 0.01]]);
  assert.equal(delaysShown({ ...START, intervals: [[0.004, 0.006], [0.006, 0.01]] }), "4–6, 6–10");
  for (const text of ["", "4", "6-4", "a-b", "1-2,2-3,3-4,4-5"]) assert.equal(readDelays(text), null, text);
});

test("windows follow each other, and the last ends with the recording", () => {
  const s = of(10, 4), n = countOf(s, 25);
  assert.equal(n, 5);
  assert.deepEqual([0, 1, 2, 3, 4].map(k => endOf(s, 25, k)), [10, 14, 18, 22, 25]);
  assert.deepEqual([0, 9.9, 10, 13.9, 14, 24.9, 25].map(at => indexAt(s, 25, n, at)), [0, 0, 0, 0, 1, 3, 4]);
  assert.deepEqual([countOf(s, 3), countOf(s, 10), countOf(s, 14), endOf(s, 3, 0)], [1, 1, 2, 3]);
  for (let k = 0; k < n; k++) assert.equal(indexAt(s, 25, n, endOf(s, 25, k)), k);
});

/** Times at which playing stands after each turn of `by` seconds. */
const run = (turns: number, by: number, has: (k: number) => boolean, stepwise = false, from = 10): number[] => {
  const pace = new Pace(), s = of(10, 4), all = [from];
  for (let k = 0; k < turns; k++) all.push(pace.next(s, 25, 5, has, all[k]!, by, stepwise));
  return all.slice(1);
};

test("playing goes on by the time that has gone, and waits for what is not mined", () => {
  assert.deepEqual(run(3, 1, () => true), [11, 12, 13]);
  assert.deepEqual(run(5, 1, () => false), [10, 10, 10, 10, 10]);
  const waits = run(30, 1, k => k < 2);
  assert.ok(waits.at(-1)! > 17.9 && waits.at(-1)! < 18, String(waits.at(-1)));
});

test("no window is passed over, however fast; at the end it stands", () => {
  assert.deepEqual(run(6, FASTEST, () => true), [14, 18, 22, 25, 25, 25]);
  assert.deepEqual(run(3, 100, k => k < 2).map(t => indexAt(of(10, 4), 25, 5, t)), [1, 1, 1]);
});

test("with less motion it goes from window to window, in the same time", () => {
  assert.deepEqual(run(16, 1, () => true, true), [10, 10, 10, 14, 14, 14, 14, 18, 18, 18, 18, 22, 22, 22, 25, 25]);
  // Before the first window has ended, the view moves to its end once.
  assert.equal(run(1, 0.1, () => true, true, 2)[0], 2.1);
});

test("counts change from window to window", () => {
  const e = (channels: number[], count: number): Numbered => ({ channels, edges: channels.slice(1).map(() => 0), labels: channels.map(String), low: [], high: [], count, expected: null, std: null, p: null, q: null });
  assert.deepEqual(changes([e([1, 2], 5), e([2, 1], 4)], { frequent: 1, episodes: [e([1, 2], 7)] }), [-2, 4]);
  // One of two episodes is not listed: it may be this one.
  assert.deepEqual(changes([e([1, 2], 5), e([2, 1], 4)], { frequent: 2, episodes: [e([1, 2], 7)] }), [-2, null]);
  assert.deepEqual([[1, 2], [2, 1]].map(c => countIn({ frequent: 2, episodes: [e([1, 2], 7)] }, `${c}&edges=0`)), [7, null]);
  assert.equal(countIn({ frequent: 1, episodes: [e([1, 2], 7)] }, "2,1&edges=0"), 0);
  assert.deepEqual(changes([e([1, 2], 5)], null), [null]);
});

test("windows are kept in a bounded number, the farthest are dropped, and the first missing is asked for", () => {
  const kept = new Map([0, 1, 5, 6, 9].map(k => [k, k]));
  assert.equal(missing(kept, 5, 20, 4), 7);
  assert.equal(missing(kept, 5, 7, 4), null);
  prune(kept, 6, 3);
  assert.deepEqual([...kept.keys()], [5, 6, 9]);
});
