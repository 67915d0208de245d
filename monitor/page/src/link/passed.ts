// The session's history over the seconds in view, in words: for files that tell of a moment that may be long past.
import { clock, duration, plural, whole } from "../draw/format.ts";
import { verdictWords, type SessionHistory, type Slot } from "./session.ts";

/** Slots that share time with [from, to), in seconds of the session's clock. */
export const slotsIn = (slots: Slot[], from: number, to: number): Slot[] => slots.filter(s => s.at < to && s.at + s.seconds > from);

const most = (values: (number | undefined)[]): number => values.reduce<number>((a, b) => b !== undefined && !(b <= a) ? b : a, NaN);
const MOST_NAMED = 5;
/** Channels by name, the first of them. */
function named(channels: number[], names: string[]): string {
  const listed = channels.slice(0, MOST_NAMED).map(c => names[c] ?? String(c)).join(", ");
  return channels.length === 0 ? "none" : `${listed}${channels.length > MOST_NAMED ? ` and ${whole(channels.length - MOST_NAMED)} more` : ""}`;
}
/** All of the lists, ascending, each once. */
const union = (lists: number[][]): number[] => [...new Set(lists.flat())].sort((a, b) => a - b);

/** The verdict that held at a time, in words; null if none is known. */
export function verdictAt(h: Pick<SessionHistory, "verdict" | "past">, at: number): string | null {
  if (at >= h.verdict.since && h.verdict.level !== "unknown") return verdictWords(h.verdict, clock);
  const before = h.past.findLast(p => p.from <= at && at <= p.to);
  return before ? `${before.level}, ${clock(before.from)} to ${clock(before.to)}: ${before.words}` : null;
}

/** Names and values of what the server counted in the seconds that [from, to) touches; none of them is of another time. */
export function passedFacts(h: SessionHistory, [from, to]: [number, number], names: { channels: string[]; outputs: string[] }, deadline: number | null): [string, string][] {
  const slots = slotsIn(h.slots, from, to), first = slots[0], last = slots.at(-1);
  if (!first || !last) return [["history", "the server has no whole second of this time"]];
  const span = `${clock(first.at)} to ${clock(last.at + last.seconds)}`, sum = (of: (s: Slot) => number): number => slots.reduce((n, s) => n + of(s), 0), facts: [string, string][] = [];
  const scores = last.r2.flatMap((v, k) => v === null ? [] : [`${names.outputs[k] ?? k} ${v.toFixed(3)}`]);
  if (scores.length > 0) facts.push([`R², half a minute up to ${clock(last.at + last.seconds)}`, scores.join(", ")]);
  const steps = (of: "p50_ns" | "p99_ns" | "longest_ns") => duration(most(slots.map(s => s.computing?.[of])));
  if (slots.some(s => s.computing)) facts.push([`computing a step, ${span}`, `p50 ≤ ${steps("p50_ns")}, p99 ≤ ${steps("p99_ns")} in every second, max ${steps("longest_ns")}${deadline === null ? "" : `; deadline ${duration(deadline)}`}`]);
  const arrival = (of: "p50_us" | "p99_us" | "max_us") => duration(most(slots.map(s => s.arrival?.[of])) * 1e3);
  if (slots.some(s => s.arrival)) facts.push([`from arrival to output, ${span}`, `p50 ≤ ${arrival("p50_us")}, p99 ≤ ${arrival("p99_us")} in every second, max ${arrival("max_us")}`]);
  facts.push([`counts, ${span}`, `${plural(sum(s => s.steps), "step")}, ${plural(sum(s => s.spikes), "spike")}, ${plural(sum(s => s.misses), "deadline")} missed, ${plural(sum(s => s.lost), "spike")} dropped, ${whole(sum(s => s.late))} late, ${whole(sum(s => s.unknown))} of unknown channels, ${plural(sum(s => s.not_shown), "step")} not shown`]);
  const flags = [["clamped", "clamped"], ["out_of_range", "out of range"], ["blanked", "blanked"], ["non_finite", "not finite"], ["held", "held"]] as const;
  const raised = flags.flatMap(([key, words]) => { const n = sum(s => s.flags[key]); return n > 0 ? [`${whole(n)} ${words}`] : []; });
  if (raised.length > 0) facts.push([`flagged steps, ${span}`, raised.join(", ")]);
  facts.push([`channels, ${span}`, `silent: ${named(union(slots.map(s => s.silent)), names.channels)}; noisy: ${named(union(slots.map(s => s.noisy)), names.channels)}; masked: ${whole(last.masked)} of ${whole(names.channels.length)}`]);
  if (!/^0*$/.test(last.model)) facts.push([`model, ${span}`, `checksum ${runs(slots.map(s => s.model)).join(", then ")}`]);
  const verdict = verdictAt(h, last.at + last.seconds);
  if (verdict) facts.push([`verdict at ${clock(last.at + last.seconds)}`, verdict]);
  return facts;
}
/** Neighbours that are equal once. */
const runs = (all: string[]): string[] => all.filter((v, k) => k === 0 || v !== all[k - 1]);
