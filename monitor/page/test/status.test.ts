import assert from "node:assert/strict";
import { test } from "node:test";
import { statusFacts, type SessionStatus } from "../src/link/status.ts";

const source = { name: "array", lost: 0, at_least: false, bound_us: 380.4, silent_ms: 3 };
const status = (more: Partial<SessionStatus> = {}): SessionStatus => ({ recording: null, learning: null, unlike_training: null, recalibration: null, notes: null, arrival_to_output: null, without_data: 0, behind: 0, sources: [source], ...more });
const brief = (s: SessionStatus) => statusFacts(s).map(([name, value, kind]) => `${name}: ${value}${kind && ` (${kind})`}`);

test("a session that neither records nor learns says so, with its source's clock", () => {
  assert.deepEqual(brief(status()), ["recording: off", "adaptation: off", "array: 0 lost ± 380 µs"]);
});

test("missing frames, an ended trainer and models that were not stored are told in words", () => {
  const recording = { folder: "rec/run-1", bytes: 12_345_678, unrecorded: 0, fill: 0.2, full: false }, learning = { trials: 41, accepted: 3, refused: 2, rolled_back: 1, unstored: 0, proposed: false, dead: false };
  assert.deepEqual(brief(status({ recording, learning })).slice(0, 2), ["recording: 12.3 MB", "adaptation: 41 trials"]);
  assert.match(statusFacts(status({ recording }))[0]![3], /rec\/run-1/);
  assert.equal(brief(status({ recording: { ...recording, unrecorded: 7 } }))[0], "recording: 7 frames missing (bad)");
  assert.equal(brief(status({ recording: { ...recording, fill: 0.4 } }))[0], "recording: slow disk, buffer 40 % full (warn)");
  assert.equal(brief(status({ recording: { ...recording, unrecorded: 7, full: true } }))[0], "recording: disk full (bad)");
  assert.equal(brief(status({ learning: { ...learning, dead: true } }))[1], "adaptation: ended (bad)");
  assert.equal(brief(status({ learning: { ...learning, unstored: 2 } }))[1], "adaptation: 2 models not stored (warn)");
  assert.equal(brief(status({ learning: { ...learning, proposed: true } }))[1], "adaptation: a model waits (warn)");
});

test("a recalibration says what waits and what decodes", () => {
  const recalibration = { windows: 3, suggested: false, applied: false, roll_back: false, dead: false };
  const brief3 = (more: object): string => brief(status({ recalibration: { ...recalibration, ...more } }))[2]!;
  assert.equal(brief3({}), "recalibration: 3 windows");
  assert.equal(brief3({ suggested: true }), "recalibration: a model waits (warn)");
  assert.equal(brief3({ applied: true }), "recalibration: recalibrated (warn)");
  assert.equal(brief3({ applied: true, suggested: true, roll_back: true }), "recalibration: advises to roll back (warn)");
  assert.equal(brief3({ dead: true }), "recalibration: ended (bad)");
  assert.match(statusFacts(status({ recalibration }))[2]![3], /3 windows/);
  assert.equal(brief(status({ unlike_training: 0.25 }))[2], "unlike training: 0.250 nats");
});

test("labels are counted, and refused ones raise a warning", () => {
  assert.equal(brief(status({ notes: { labels: 1204, marks: 2, trials: 6, refused: 0 } }))[2], "labels: 1,204");
  assert.equal(brief(status({ notes: { labels: 1204, marks: 2, trials: 6, refused: 1 } }))[2], "labels: 1,204 (warn)");
});

test("steps without data are counted in the band", () => {
  assert.equal(brief(status({ without_data: 4514 }))[2], "without data: 4,514 steps (warn)");
  assert.equal(brief(status({ without_data: 1 }))[2], "without data: 1 step (warn)");
});

test("steps that a slow decoder left out are an alarm", () => {
  assert.equal(brief(status({ behind: 12 }))[2], "too slow: 12 steps left out (bad)");
});

test("each source has its losses; a silent one is an alarm", () => {
  const sources = [{ ...source, lost: 5, at_least: true }, { ...source, name: "b", silent_ms: 4200 }, { ...source, name: "c", bound_us: null, silent_ms: null }];
  assert.deepEqual(brief(status({ sources })).slice(2), ["array: ≥ 5 lost ± 380 µs (warn)", "b: silent for 4 s (bad)", "c: nothing yet (bad)"]);
});
