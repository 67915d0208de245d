import assert from "node:assert/strict";
import { test } from "node:test";
import { START, read, write, type Address } from "../src/url.ts";
import { ticks, timeLabel, clock } from "../src/draw/format.ts";

test("an address says what was written", () => {
  const all: Address[] = [START, { ...START, view: "model", window: 2.5, at: 412.125, channels: [3, 77], order: "rate", channel: 12, source: 2 }, { ...START, at: 0, channel: 0, channels: [5, 6] }, { ...START, view: "networks", more: { n: "0,1", rg: Array.from({ length: 60 }, (_, k) => 2 * k).join(",") } }];
  for (const address of all) {
    assert.deepEqual(read(write(address)), address);
    assert.ok(write(address).length < 400);
  }
});

test("what is wrong in an address is as if it were not there", () => {
  for (const hash of ["", "#", "#/", "#v=nowhere&w=abc&t=-4&ch=9-3&o=up&c=1.5", "#w=1e99&ch=1-&t=NaN&c=-2", "#%E0%A4%A"]) assert.deepEqual(read(hash), START, hash);
});

test("axes", () => {
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticks(3, 3, 5), []);
  assert.equal(timeLabel(3.25, 0.05), "3.25 s");
  assert.equal(timeLabel(61, 1), "1:01");
  assert.equal(clock(3725.4, 1), "1:02:05.4");
});
