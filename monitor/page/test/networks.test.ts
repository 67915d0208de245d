import assert from "node:assert/strict";
import { test } from "node:test";
import { NONE, bounds, circle, colour, degrees, difference, endOf, fitted, graphml, keyOf, levelOf, linksOf, listed, matrix, orderBy, prefix, windowAt, within, type Edges, type Info } from "../src/net/model.ts";
import { random } from "./make.ts";

function edges(seed: number, nodes: number, n: number): Edges {
  const next = random(seed), seen = new Set<number>(), all: [number, number, number][] = [];
  while (all.length < n) {
    const a = Math.floor(next() * nodes), b = Math.floor(next() * nodes);
    if (a < b && !seen.has(a * nodes + b)) { seen.add(a * nodes + b); all.push([a, b, Math.fround(next() * 2 - 1)]); }
  }
  all.sort((x, y) => Math.abs(y[2]) - Math.abs(x[2]));
  return { window: 0, total: n, i: Uint32Array.from(all, e => e[0]), j: Uint32Array.from(all, e => e[1]), r: Float32Array.from(all, e => e[2]), key: Float32Array.from(all, e => keyOf(false, e[2])), undefined: new Uint32Array(0) };
}
const info = (more: Partial<Info>): Info => ({ id: 0, name: "", nodes: 4, windows: 5, edges: 0, measure: "pearson", sign: "both", strict: false, distance: false, window: 10, step: 5, window_seconds: 2, step_seconds: 1, seconds: [0, 1, 2, 3, 4], names: null, positions: null, levels: [0, 0.5, 1], undefined: [0, 0], complete: true, peaks: true, device: "", ...more });

test("a threshold is a prefix, as counting one by one says", () => {
  const e = edges(3, 40, 500);
  for (const t of [-1, 0, 0.1, 0.25, 0.5, 0.99, 1, ...e.key.slice(0, 40), ...e.key.slice(480)]) assert.equal(prefix(e.key, t), e.key.filter(k => k >= Math.fround(t)).length, String(t));
  assert.equal(prefix(new Float32Array(0), 0), 0);
  assert.deepEqual([0, 0.2, 0.5, 0.7, 2].map(t => levelOf([0, 0.5, 1], t)), [0, 1, 1, 2, 2]);
});

test("degrees and edges of a node, and of a region alone", () => {
  const e = edges(7, 30, 200), inside = Uint8Array.from({ length: 30 }, (_, n) => n % 3 === 0 ? 0 : 1);
  for (const region of [null, inside]) {
    const d = degrees(e, 120, 30, region);
    for (let n = 0; n < 30; n++) {
      let count = 0;
      for (let k = 0; k < 120; k++) if ((e.i[k] === n || e.j[k] === n) && (!region || region[e.i[k]!] && region[e.j[k]!])) count++;
      assert.equal(d[n], count);
      if (!region || region[n]) assert.equal(linksOf(e, 120, n, region).length, count);
    }
  }
});

test("the difference of two networks is each edge once", () => {
  const a = edges(1, 20, 90), b = edges(2, 20, 80), [only, both, other] = difference(a, 60, b, 50, 20);
  const pairs = (e: Edges, n: number) => Array.from({ length: n }, (_, k) => `${e.i[k]} ${e.j[k]}`), pa = new Set(pairs(a, 60)), pb = new Set(pairs(b, 50));
  assert.deepEqual(new Set(pairs(only, only.i.length)), new Set([...pa].filter(p => !pb.has(p))));
  assert.deepEqual(new Set(pairs(both, both.i.length)), new Set([...pa].filter(p => pb.has(p))));
  assert.deepEqual(new Set(pairs(other, other.i.length)), new Set([...pb].filter(p => !pa.has(p))));
  for (const e of [only, both, other]) for (let k = 1; k < e.key.length; k++) assert.ok(e.key[k - 1]! >= e.key[k]!);
});

test("windows by their time, by their number where there is none", () => {
  assert.equal(endOf(info({}), 2), 4);
  assert.deepEqual([-5, 2, 2.4, 2.6, 6, 99].map(t => windowAt(info({}), t)), [0, 0, 0, 1, 4, 4]);
  assert.deepEqual([0, 1, 3, 9].map(t => windowAt(info({ seconds: null }), t)), [0, 0, 2, 4]);
});

test("regions as people write them", () => {
  assert.deepEqual(listed("3, 7-9,3", 10, null), [3, 7, 8, 9]);
  assert.deepEqual(listed("left, 0", 10, ["a", "left"]), [0, 1]);
  for (const wrong of ["10", "3-", "9-12", "x", "-1", "1.5"]) assert.equal(listed(wrong, 10, null), null, wrong);
  assert.ok(within([[0, 0], [4, 0], [4, 4], [0, 4]], 1, 3) && !within([[0, 0], [4, 0], [4, 4], [0, 4]], 5, 3));
});

test("a matrix has each edge twice, the strongest of a cell", () => {
  const e = edges(5, 12, 30), order = orderBy(12, Uint32Array.from({ length: 12 }, (_, n) => n % 2)), { size, cells } = matrix(e, 30, order, 100);
  assert.equal(size, 12);
  assert.equal(cells.filter(v => !Number.isNaN(v)).length, 60);
  assert.deepEqual([...order.slice(0, 6)], [0, 2, 4, 6, 8, 10]);
  const small = matrix(e, 30, order, 1);
  assert.equal(small.cells[0], e.r[0]);
});

test("communities that live at a time have colours of their own, and the dead's are given again", () => {
  const slots = new Map<number, number>();
  colour(slots, Uint32Array.of(0, 0, 1, NONE));
  colour(slots, Uint32Array.of(1, 2, 2, 3));
  assert.deepEqual([...slots], [[0, 0], [1, 1], [2, 0], [3, 2]]);
  colour(slots, Uint32Array.from({ length: 40 }, (_, n) => 10 + n));
  assert.equal(slots.get(49), NONE);
});

test("what has no edge does not make the picture small", () => {
  const places = Float32Array.of(0, 0, 10, 10, 1000, 1000), [l, t, r, b] = bounds(places, n => n < 2);
  assert.ok(l < 0 && t < 0 && r > 10 && r < 12 && b < 12);
  const all = bounds(places, () => false);
  assert.ok(all[2] > 1000);
  assert.equal(circle(4, null).length, 8);
});

test("GraphML has every node, the edges that are shown, and no markup out of names", () => {
  const e = edges(9, 4, 5), info = { nodes: 4, names: ["a", "<b>&", "c\u0001", "d"], positions: [[1, 2], null, [3, 4], [5, 6]] } as unknown as Info, text = graphml(info, e, 3);
  assert.equal(text.match(/<node /g)!.length, 4);
  assert.equal(text.match(/<edge /g)!.length, 3);
  assert.ok(text.includes(`<edge source="n${e.i[2]}" target="n${e.j[2]}"><data key="weight">${e.r[2]}</data></edge>`));
  assert.ok(text.includes('<data key="name">&#60;b&#62;&#38;</data></node>') && text.includes('<data key="name">c</data><data key="x">3</data><data key="y">4</data>'));
});

test("degrees from those of another number of edges are those counted anew", () => {
  const e = edges(11, 40, 300), nodes = 40, inside = Uint8Array.from({ length: nodes }, (_, k) => k % 3 === 0 ? 0 : 1);
  for (const part of [null, inside]) for (const from of [0, 17, 300]) for (const to of [0, 5, 17, 299, 300]) {
    const before = degrees(e, from, nodes, part), kept = before.slice();
    assert.deepEqual(degrees(e, to, nodes, part, { n: from, all: before }), degrees(e, to, nodes, part));
    // Earlier counts are not overwritten, because a picture may still use them.
    assert.deepEqual(before, kept);
  }
});

test("pictures side by side have one scale, and one part where their nodes are the same", () => {
  const all = [[0, 0, 10, 10], [5, 5, 45, 25]] as [number, number, number, number][];
  const [a, b] = [0, 1].map(k => fitted(all, k, false, 400, 400)), same = [0, 1].map(k => fitted(all, k, true, 400, 400));
  assert.equal(a!.scale, b!.scale);
  assert.equal(a!.scale, 10);
  // The middle of each is in the middle of its picture.
  assert.deepEqual([[a!.x + 20, a!.y + 20], [b!.x + 20, b!.y + 20]], [[5, 5], [25, 15]]);
  assert.deepEqual(same[0], same[1]);
  for (const [l, t, r, bottom] of all) assert.ok(l >= same[0]!.x && t >= same[0]!.y && (r - same[0]!.x) * same[0]!.scale <= 400 && (bottom - same[0]!.y) * same[0]!.scale <= 400);
});
