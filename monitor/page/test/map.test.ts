import assert from "node:assert/strict";
import { test } from "node:test";
import { MOST_SIDE_BY_SIDE, bodyAt, layout, middle, neighbours, nodeAt, project, range, readShown, readTurn, share, sideBySide, stageAt, tiles, turned, writeShown, writeTurn, type Shown } from "../src/som/model.ts";
import { random } from "./make.ts";

const LATTICES = [{ rows: 6, columns: 5, hexagonal: false, torus: false, layers: 1 }, { rows: 6, columns: 5, hexagonal: true, torus: false, layers: 1 }, { rows: 6, columns: 5, hexagonal: false, torus: true, layers: 1 }, { rows: 6, columns: 5, hexagonal: true, torus: true, layers: 1 }, { rows: 1, columns: 1, hexagonal: true, torus: false, layers: 1 }];

test("a point belongs to the node whose middle is nearest, and to none outside", () => {
  const next = random(3);
  for (const map of LATTICES) {
    const l = layout(map, 400, 300), nodes = map.rows * map.columns;
    for (let n = 0; n < nodes; n++) assert.equal(nodeAt(map, l, ...middle(map, l, n)), n);
    for (let k = 0; k < 2000; k++) {
      const x = next() * 400, y = next() * 300, found = nodeAt(map, l, x, y), all = Array.from({ length: nodes }, (_, n) => { const [a, b] = middle(map, l, n); return (a - x) ** 2 + (b - y) ** 2; }), least = Math.min(...all);
      if (found !== null) assert.ok(all[found]! <= least + 1e-9);
      else assert.ok(Math.sqrt(least) >= l.size / 2 - 1e-9, "what is surely inside a node is not outside");
    }
    assert.equal(nodeAt(map, l, -50, -50), null);
  }
});

test("all nodes lie in the field", () => {
  for (const map of LATTICES) for (const [w, h] of [[400, 300], [100, 900]] as const) {
    const l = layout(map, w, h);
    for (let n = 0; n < map.rows * map.columns; n++) {
      const [x, y] = middle(map, l, n), up = map.hexagonal ? l.size / Math.sqrt(3) : l.size / 2;
      assert.ok(x - l.size / 2 >= -1e-9 && x + l.size / 2 <= w + 1e-9 && y - up >= -1e-9 && y + up <= h + 1e-9);
    }
  }
});

test("neighbours touch, and touch back", () => {
  for (const map of LATTICES) for (let a = 0; a < map.rows * map.columns; a++) {
    const near = neighbours(map, a), l = layout(map, 100, 100), [x, y] = middle(map, l, a);
    assert.equal(new Set(near).size, near.length);
    for (const b of near) {
      assert.ok(neighbours(map, b).includes(a));
      const [u, v] = middle(map, l, b);
      if (!map.torus) assert.ok(Math.hypot(x - u, y - v) <= l.size * Math.SQRT2 + 1e-9);
    }
    if (map.torus) assert.equal(near.length, map.hexagonal ? 6 : 8);
  }
});

test("layers touch those above and below", () => {
  for (const hexagonal of [false, true]) for (const torus of [false, true]) {
    const map = { rows: 16, columns: 5, hexagonal, torus, layers: 4 };
    for (let a = 0; a < 80; a++) {
      const near = neighbours(map, a);
      assert.equal(new Set(near).size, near.length);
      for (const b of near) assert.ok(neighbours(map, b).includes(a));
      if (torus) assert.equal(near.length, hexagonal ? 20 : 26);
    }
    // A corner: its own square, and that of the layer above; the last row of a layer does not touch the first of the next but one.
    if (!torus && !hexagonal) assert.deepEqual(neighbours(map, 0).sort((a, b) => a - b), [1, 5, 6, 20, 21, 25, 26]);
  }
});

test("maps side by side lie in the field, and do not overlap", () => {
  for (const count of [1, 2, 7, 16]) for (const [w, h] of [[900, 300], [200, 700]] as const) {
    const all = tiles(count, LATTICES[0]!, w, h, 18);
    assert.equal(all.length, count);
    for (const [k, t] of all.entries()) {
      assert.ok(t.x >= 0 && t.y >= 18 && t.x + t.w <= w + 1e-9 && t.y + t.h <= h + 1e-9);
      for (const o of all.slice(k + 1)) assert.ok(o.x >= t.x + t.w || o.x + o.w <= t.x || o.y >= t.y + t.h || o.y + o.h <= t.y);
    }
  }
  assert.deepEqual(sideBySide(5, 2), [2, 3, 4]);
  assert.equal(sideBySide(1000, 0).length, MOST_SIDE_BY_SIDE);
});

test("a body turns: distances stay, what is near lies in front, and all of it lies in the field", () => {
  const map = { rows: 12, columns: 5, hexagonal: false, layers: 3 };
  const front = project(map, { around: 0, up: 0 }, 400, 300);
  // From the front: columns to the right, layers upwards, and the first row before the others.
  assert.ok(front.x[1]! > front.x[0]! && Math.abs(front.y[1]! - front.y[0]!) < 1e-4);
  assert.ok(front.y[20]! < front.y[0]! && front.near[0]! > front.near[5]!);
  const top = project(map, { around: 0, up: 90 }, 400, 300);
  assert.ok(Math.abs(top.x[20]! - top.x[0]!) < 1e-3 && Math.abs(top.y[20]! - top.y[0]!) < 1e-3 && top.near[20]! > top.near[0]!);
  for (let around = 0; around < 360; around += 35) for (const up of [-90, -40, 0, 65]) {
    const body = project(map, { around, up }, 400, 300), far = (a: number, b: number): number => Math.hypot(body.x[a]! - body.x[b]!, body.y[a]! - body.y[b]!, (body.near[a]! - body.near[b]!) * body.size);
    for (const [a, b, lengths] of [[0, 1, 1], [0, 5, 1], [0, 20, 1], [0, 59, Math.hypot(4, 3, 2)]] as const) assert.ok(Math.abs(far(a, b) - lengths * body.size) < 1e-2, `${around} ${up}`);
    for (let n = 0; n < 60; n++) assert.ok(body.x[n]! >= 0 && body.x[n]! <= 400 && body.y[n]! >= 0 && body.y[n]! <= 300);
    for (let k = 1; k < 60; k++) assert.ok(body.near[body.order[k]!]! >= body.near[body.order[k - 1]!]!);
    const nearest = body.order[59]!;
    assert.equal(bodyAt(body, 5, body.x[nearest]!, body.y[nearest]!), nearest);
    assert.equal(bodyAt(body, 5, -50, -50), null);
  }
});

test("a direction is in the address", () => {
  for (const t of [{ around: 0, up: -90 }, { around: 359, up: 25 }]) assert.deepEqual(readTurn(writeTurn(t)), t);
  for (const wrong of [undefined, "", "360,0", "10", "10,91", "-1,0", "1.5,0"]) assert.equal(readTurn(wrong), null);
  assert.deepEqual(turned({ around: 350, up: 85 }, 20, 20), { around: 10, up: 90 });
});

test("what is shown is in the address, and what is wrong there is the U-matrix", () => {
  for (const s of [{ what: "heights" }, { what: "hits" }, { what: "units" }, { what: "plane", dim: 4 }, { what: "rgb", dims: [2, 0, 4] }, { what: "all", from: 3 }] as Shown[]) assert.deepEqual(readShown(writeShown(s), 5), s);
  for (const wrong of [undefined, "", "5", "-1", "1,2", "1,2,9", "x", "0x1", "1.5", "all", "all5", "all-1"]) assert.deepEqual(readShown(wrong, 5), { what: "heights" }, wrong);
});

test("a stage that was left out is the one before it", () => {
  const stages = [0, 2, 6, 9].map(number => ({ number, epochs: number, hits: true }));
  assert.deepEqual([null, 0, 1, 2, 5, 6, 100].map(asked => stageAt(stages, asked)), [3, 0, 0, 1, 1, 2, 3]);
  assert.equal(stageAt([], null), -1);
});

test("scales", () => {
  assert.deepEqual(range([3, -1, 2]), [-1, 3]);
  assert.deepEqual(range([]), [0, 0]);
  assert.deepEqual([-5, 0, 1, 2, 9].map(v => share(v, [0, 2])), [0, 0, 0.5, 1, 1]);
  assert.equal(share(4, [4, 4]), 0.5);
});
