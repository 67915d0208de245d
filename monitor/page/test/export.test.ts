import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_MARKS, outputsCsv, spikesCsv, svg, type Facts, type Inks } from "../src/draw/export.ts";
import { snapshot } from "../src/draw/snapshot.ts";
import { table } from "../src/draw/table.ts";
import type { Picture } from "../src/draw/raster.ts";
import { Store } from "../src/link/store.ts";
import { frame } from "./make.ts";

const facts: Facts = { source: 'a <b>"session"</b> & more', checksum: "00ff", model: "m<1>.betz", saved: "2026-11-25 08:00:00 +00:00", address: "http://127.0.0.1/#v=live", version: "1", channels: ["a,b", 'c"d', "e", "f", "g", "h", "i", "j"], outputs: [{ name: "x", unit: "mm" }] };
const inks: Inks = { ink: "#000", dim: "#111", line: "#222", paper: "#fff", intended: "#333", goal: "#00f", decoded: ["#444"] };
const none = () => ({ url: "data:none", scale: [] });
const picture: Picture = { end: 100, window: 60, from: 0, to: 8, order: null, sweep: false, ink: [0, 0, 0], paper: [0, 0, 0], dim: [0, 0, 0] };
const store = () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 50, [[10, 0], [45, 0]]), false);
  s.add(frame(2, 60, 40, [[61, 1], [99, 7]]), true);
  return s;
};

test("tables hold what is shown, and say what it is", () => {
  const lines = spikesCsv(store(), picture, facts).trimEnd().split("\n");
  assert.deepEqual(lines.slice(-4), ["seconds,channel,spikes", '0.0450,"a,b",1', '0.0610,"c""d",1', "0.0990,j,1"]);
  assert.equal(lines.filter(l => l.startsWith("#")).length, 5);
  const part = spikesCsv(store(), { ...picture, from: 7 }, facts).trimEnd().split("\n");
  assert.deepEqual(part.slice(-1), ["0.0990,j,1"]);
  const rows = outputsCsv(store(), picture, facts).trimEnd().split("\n").filter(l => !l.startsWith("#"));
  assert.equal(rows[0], "seconds,x,x_true");
  assert.equal(rows.length, 1 + 10 + 40);
  assert.equal(rows[1], "0.0400,40,41");
});

test("a drawing has every spike, its holes, and no markup from names", () => {
  const text = svg(store(), picture, facts, inks, none);
  assert.equal(text.match(/M[\d.]+ [\d.]+v[\d.]+/g)!.filter(m => !/v[57]$/.test(m)).length, 3);
  assert.match(text, /url\(#hole\)/);
  assert.doesNotMatch(text, /<b>/);
  assert.match(text, /a &#60;b&#62;/);
  // Its size on paper, what its axes are, and which line is which.
  const [, wide, high, w, h] = /width="([\d.]+)mm" height="([\d.]+)mm" viewBox="0 0 (\d+) (\d+)"/.exec(text)!;
  assert.equal(wide, "180");
  assert.ok(Math.abs(Number(high) / 180 - Number(h) / Number(w)) < 1e-3);
  for (const words of ["time of the session", "channels", "x, decoded", "true", "x, mm"]) assert.ok(text.includes(`>${words}</text>`), words);
});

test("many spikes are a picture in the drawing", () => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.001, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 100, Array.from({ length: MOST_MARKS + 1 }, (_, i) => [i % 100, i % 8] as [number, number])), false);
  assert.match(svg(s, { ...picture, window: 100 }, facts, inks, () => ({ url: "data:image/png;base64,AA", scale: [] })), /<image[^>]*href="data:image\/png;base64,AA"/);
});

test("a table's cells are quoted where they must be, and empty where nothing is known", () => {
  const text = table({ source: "two\nlines", betz: "1" }, ["channel", "rate, Hz"], [["a,b", 1.5], ['c"d', NaN], ["e", null], ["f", undefined], ["g", 0]]);
  assert.equal(text, '# source: two lines\n# betz: 1\nchannel,"rate, Hz"\n"a,b",1.5\n"c""d",\ne,\nf,\ng,0\n');
});

test("a picture names its session, its time and its model", () => {
  const text = svg(store(), picture, facts, inks, none);
  assert.match(text, />0:00\.04 to 0:00\.10 · m&#60;1&#62;\.betz 00ff</);
  assert.match(text, />2026-11-25 08:00:00 \+00:00 · http/);
});

test("a picture of a session's first seconds has no time before its start", () => {
  const text = svg(store(), { ...picture, window: 400 }, facts, inks, none), labels = [...text.matchAll(/>([^<>]*)<\/text>/g)].map(m => m[1]!);
  assert.deepEqual(labels.filter(l => / s$/.test(l)), ["0.00 s", "0.05 s", "0.10 s", "0.00 s", "0.05 s", "0.10 s"]);
  assert.ok(labels.some(l => l.startsWith("0:00.00 to 0:00.10")), labels.join("; "));
});

test("a snapshot is one file without script, and no name in it is markup", () => {
  const drawn = svg(store(), picture, facts, inks, none);
  const text = snapshot({ facts: [["session", facts.source], ["masked", "2 of 8 channels"]], alarms: ["3 deadlines missed <i>"], incidents: [["0:00.045", "mark: <script>alert(1)</script>"]], picture: drawn }, facts, inks);
  assert.ok(text.includes(drawn) && text.startsWith("<!doctype html>"));
  assert.doesNotMatch(text, /<script|<b>"session|<i>|src=|href="http/);
  for (const words of ["3 deadlines missed", "0:00.045", "2 of 8 channels", "a &#60;b&#62;&#34;session&#34;"]) assert.ok(text.includes(words), words);
});

test("a figure's plots have values and units on their axes, the target, and a scale of counts", () => {
  const s = store();
  s.happened({ tick: 60, type: "target", values: [70] });
  const text = svg(s, picture, facts, inks, none), labels = [...text.matchAll(/>([^<>]*)<\/text>/g)].map(m => m[1]!);
  // Estimates of the window are 40 to 99.
  for (const words of ["40", "60", "80", "100", "x, mm", "target"]) assert.ok(labels.includes(words), `${words} in ${labels.join("; ")}`);
  assert.match(text, /stroke="#00f" stroke-width="1.4"/);
  assert.equal(labels.filter(l => l === "time of the session").length, 2);
  const counted = new Store({ channels: 8, outputs: 1, stepSeconds: 0.1, keepSeconds: 60 }, 0);
  counted.add(frame(0, 0, 20, [[3, 1], [5, 2], [5, 2]]), false);
  const heat = svg(counted, { ...picture, end: 20, window: 20 }, facts, inks, () => ({ url: "data:heat", scale: [[1, "rgb(1 2 3)"], [2, "rgb(4 5 6)"]] }));
  assert.match(heat, /href="data:heat"/);
  assert.match(heat, /fill="rgb\(4 5 6\)"\/><text[^>]*>2</);
  assert.match(heat, />spikes per bin</);
});
