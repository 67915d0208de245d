import assert from "node:assert/strict";
import { test } from "node:test";
import { layout, middle, neighbours, nodeAt, range, readShown, share, stageAt, writeShown, type Shown } from "../src/som/model.ts";
import { random } from "./make.ts";

const LATTICES = [{ rows: 6, columns: 5, hexagonal: false, torus: false }, { rows: 6, columns: 5, hexagonal: true, torus: false }, { rows: 6, columns: 5, hexagonal: false, torus: true }, { rows: 6, columns: 5, hexagonal: true, torus: true }, { rows: 1, columns: 1, hexagonal: true, torus: false }];

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

test("what is shown is in the address, and what is wrong there is the U-matrix", () => {
  for (const s of [{ what: "heights" }, { what: "hits" }, { what: "units" }, { what: "plane", dim: 4 }, { what: "rgb", dims: [2, 0, 4] }] as Shown[]) assert.deepEqual(readShown(writeShown(s), 5), s);
  for (const wrong of [undefined, "", "5", "-1", "1,2", "1,2,9", "x", "0x1", "1.5"]) assert.deepEqual(readShown(wrong, 5), { what: "heights" }, wrong);
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
