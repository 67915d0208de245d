// The server keeps half a second on both sides of every missed deadline: the list of them, and one of them as a store.
import { parseAll } from "./frame.ts";
import { Store, type LatencyHistory } from "./store.ts";

interface Moment { id: number; from: number; to: number; misses: { tick: number; nanoseconds: number }[] }
const kept = async (): Promise<Moment[]> => (await (await fetch("api/misses")).json() as { moments: Moment[] }).moments;

/** Misses from before this page came. */
export async function missesSoFar(s: Store): Promise<void> {
  for (const m of await kept()) for (const miss of m.misses) s.missed({ tick: miss.tick - s.base, ns: miss.nanoseconds });
  s.sortMisses();
}

/** Time that steps took before this page came. */
export async function latencySoFar(s: Store): Promise<void> {
  const answer = await fetch("api/latency");
  if (answer.ok) s.latencyBefore(await answer.json() as LatencyHistory);
}

/** Loads the data around a tick of the session into a separate store, with the session's rates, misses, events and counters. */
export async function around(tick: number, s: Store): Promise<Store | null> {
  const found = (await kept()).find(m => m.from <= tick + s.base && tick + s.base < m.to);
  if (!found) return null;
  const answer = await fetch(`api/misses/${found.id}`);
  if (!answer.ok) return null;
  const aside = new Store({ ...s.shape, keepSeconds: (found.to - found.from) * s.shape.stepSeconds }, s.base);
  for (const frame of parseAll(await answer.arrayBuffer())) aside.add(frame, false);
  const { rates, trend, misses, events, seconds, counters, verdict, verdicts } = s;
  return Object.assign(aside, { rates, trend, misses, events, seconds, counters, verdict, verdicts });
}
