// Incidents of a session: missed deadlines, losses, verdicts, swaps, masks and marks, in the order of their time.
import { duration } from "../draw/format.ts";
import type { Happened, Miss, Store } from "./store.ts";

export interface Incident { tick: number; words: string }
/** Seconds shown before and after an incident. */
export const AROUND_SECONDS = 0.5;

export const missWords = (m: Miss): string => `deadline missed: the step took ${duration(m.ns)}`;

/** An event in words; null if it is no incident. */
function eventWords(event: Happened): string | null {
  if (event.type === "swap") return "a new model took over";
  if (event.type === "verdict") return event["level"] === "good" ? "the decoder is good again" : event["level"] === "unknown" ? null : String(event["words"]);
  if (event.type !== "control") return null;
  const channels = event["channels"] as number[] | undefined;
  switch (event["what"]) {
    case "mask": return channels?.length ? `mask of ${channels.length} channel${channels.length > 1 ? "s" : ""}` : "mask removed";
    case "mark": return event["text"] ? `mark: ${String(event["text"])}` : "mark";
    case "swap": return `swap to ${String(event["model"])} asked for`;
    default: return String(event["what"]);
  }
}

export function incidents(s: Store): Incident[] {
  const found: Incident[] = s.misses.map(m => ({ tick: m.tick, words: missWords(m) }));
  for (const h of s.holes) found.push({ tick: h.from, words: `${((h.to - h.from) * s.shape.stepSeconds).toFixed(3)} s did not reach this page` });
  for (const event of s.events) {
    const words = eventWords(event);
    if (words !== null) found.push({ tick: event.tick, words });
  }
  found.sort((a, b) => a.tick - b.tick);
  // Events of the same step are one incident.
  const all: Incident[] = [];
  for (const i of found) {
    const last = all.at(-1);
    if (last?.tick === i.tick) last.words += `; ${i.words}`; else all.push(i);
  }
  return all;
}

/** The incident after a tick, or the one before it. */
export const neighbour = (all: Incident[], tick: number, forward: boolean): Incident | undefined => forward ? all.find(i => i.tick > tick) : all.findLast(i => i.tick < tick);
