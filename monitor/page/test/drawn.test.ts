// Pictures in the plane, by a canvas that notes what is asked of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "../src/link/store.ts";
import { stageWords, type Info } from "../src/som/model.ts";
import { sorted } from "../src/link/trials.ts";
import { frame } from "./make.ts";

interface Call { what: string; args: unknown[]; ink: string }
/** A context that records its calls with the colour they use. */
function recorder(): { g: CanvasRenderingContext2D; calls: Call[] } {
  const calls: Call[] = [], own: Record<string, unknown> = { measureText: (t: string) => ({ width: 6 * t.length }) };
  const g = new Proxy(own, {
    get: (o, what: string) => what in o ? o[what] : (...args: unknown[]) => { calls.push({ what, args, ink: String(what === "stroke" ? o["strokeStyle"] : o["fillStyle"]) }); },
    set: (o, what: string, value) => { o[what] = value; return true; },
  });
  return { g: g as unknown as CanvasRenderingContext2D, calls };
}
/** The theme reads the browser when it is loaded. */
async function themed(): Promise<void> {
  Object.assign(globalThis, { localStorage: { getItem: () => null }, matchMedia: () => ({ matches: false }) });
  const { colours } = await import("../src/theme.ts");
  for (const name of ["bg", "panel", "ink", "dim", "line", "x", "y", "z", "true", "good", "warn", "bad", "spike"] as const) colours[name] = { css: name, rgb: [0, 0, 0] };
}

test("the numbers of the latency histogram lie on its bars, and bars are as high as the counts", async () => {
  await themed();
  const { paintLatency } = await import("../src/draw/latency.ts"), { g, calls } = recorder(), all = new Float64Array(64), recent = new Float64Array(64);
  for (let i = 3; i < 30; i++) { all[i] = 10 ** (i / 8); recent[i] = i; }
  paintLatency(g, 400, 200, all, recent, 20_000);
  const bars = calls.flatMap((c, i) => c.what === "fillRect" && (c.ink === "x" || c.ink === "bad") ? [i] : []), labels = calls.flatMap((c, i) => c.what === "fillText" && /^[\d,]+$/.test(String(c.args[0])) ? [i] : []);
  assert.equal(bars.length, 2 * 27);
  assert.ok(labels.length >= 3);
  assert.ok(Math.min(...labels) > Math.max(...bars), "no bar is drawn over a number");
  // Both axes are logarithmic: a bar's height goes by log(1 + n).
  const pale = bars.filter((_, k) => k % 2 === 0).map(i => calls[i]!.args[3] as number), scale = pale[0]! / Math.log10(1 + all[3]!);
  pale.forEach((high, k) => assert.ok(Math.abs(high - scale * Math.log10(1 + all[3 + k]!)) < 1e-9));
});

test("moments have lines at their ticks, trials only where there is room between them", async () => {
  await themed();
  const { momentLines } = await import("../src/draw/lines.ts"), s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 1000, [], { trials: Uint16Array.from([100, 300, 600]), slow: [{ offset: 250, ns: 9e5 }, { offset: 252, ns: 9e5 }, { offset: 700, ns: 9e5 }] }), false);
  s.happened({ tick: 400, type: "control", what: "mark" });
  s.happened({ tick: 410, type: "swap state" });
  s.happened({ tick: 999, type: "swap" });
  const of = (from: number, to: number, wide: number) => momentLines(s, from, to, wide).map(l => `${l.kind} ${l.tick}`).sort();
  assert.deepEqual(of(0, 1000, 500), ["event 400", "event 999", "miss 250", "miss 700", "trial 100", "trial 300", "trial 600"]);
  assert.deepEqual(of(200, 400, 500), ["miss 250", "trial 300"]);
  assert.deepEqual(of(0, 1000, 40), ["event 400", "event 999", "miss 250", "miss 700"]);
});

test("a map that was read as trained is not before its training", () => {
  const info = (stages: number[], errors: [number, number, number][]) => ({ stages: stages.map((epochs, number) => ({ number, epochs, hits: true })), errors }) as unknown as Info;
  assert.equal(stageWords(info([0], []), { epochs: 0 }), "as trained; the file has no earlier stages");
  assert.equal(stageWords(info([0, 5, 10], [[0, 1, 1]]), { epochs: 0 }), "before training");
  assert.equal(stageWords(info([0], [[0, 1, 1]]), { epochs: 0 }), "before training");
  assert.equal(stageWords(info([0, 2.5], []), { epochs: 2.5 }), "after 2.5 epochs");
  assert.equal(stageWords(info([], []), undefined), "no stage yet");
});

test("trials by label keep their time within a label", () => {
  const t = ["go", "rest", "go", null].map((label, k) => ({ label, seconds: k, spikes: 0, inside: [0, 1] as [number, number], begin: 0, r2: null, rmse: null }));
  assert.deepEqual(sorted(t, "label"), [3, 0, 2, 1]);
});
