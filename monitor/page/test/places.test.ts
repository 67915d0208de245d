import assert from "node:assert/strict";
import { test } from "node:test";
import { places } from "../src/link/places.ts";

test("channels without positions of their own lie in a grid", () => {
  for (const um of [null, Array.from({ length: 31 }, (): [number, number] => [0, 0]), Array.from({ length: 31 }, () => null)]) {
    const found = places(um, 31, 1.4);
    assert.equal(found.known, false);
    assert.equal(new Set(found.at.map(String)).size, 31);
  }
});

test("units of one site stand side by side, inside the site's square", () => {
  const um: ([number, number] | null)[] = [[0, 0], [0, 0], [0, 0], [20, 0], null], found = places(um, 5, 1.4);
  assert.equal(found.known, true);
  assert.equal(found.pitch, 20);
  assert.deepEqual(found.share, [0.5, 0.5, 0.5, 1, 1]);
  assert.deepEqual(found.at[3], [20, 0]);
  assert.equal(found.at[4], null);
  const own = found.at.slice(0, 3) as [number, number][];
  assert.equal(new Set(own.map(String)).size, 3);
  for (const [x, y] of own) assert.ok(Math.abs(x) + 20 * 0.86 / 4 <= 20 * 0.86 / 2 + 1e-9 && Math.abs(y) <= 10);
});
