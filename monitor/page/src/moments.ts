// The server keeps half a second on both sides of every missed deadline. The page asks for it if the view is older than
// the last minute.
import { effect } from "@preact/signals";
import { parseAll } from "./link/frame.ts";
import { Store } from "./link/store.ts";
import * as state from "./state.ts";

interface Moment { id: number; from: number; to: number; misses: { tick: number; nanoseconds: number }[] }
const kept = async (): Promise<Moment[]> => (await (await fetch("/api/misses")).json() as { moments: Moment[] }).moments;

/** Misses from before this page came. */
export async function missesSoFar(s: Store): Promise<void> {
  for (const m of await kept()) for (const miss of m.misses) s.misses.push({ tick: miss.tick - s.base, ns: miss.nanoseconds });
  s.sortMisses();
}

/** Loads the data around a tick of the session into a separate store, with the session's rates, misses, events and counters. */
async function around(tick: number, s: Store): Promise<Store | null> {
  const found = (await kept()).find(m => m.from <= tick + s.base && tick + s.base < m.to);
  if (!found) return null;
  const answer = await fetch(`/api/misses/${found.id}`);
  if (!answer.ok) return null;
  const aside = new Store({ ...s.shape, keepSeconds: (found.to - found.from) * s.shape.stepSeconds }, s.base);
  for (const frame of parseAll(await answer.arrayBuffer())) aside.add(frame, false);
  const { rates, trend, misses, events, seconds, counters } = s;
  return Object.assign(aside, { rates, trend, misses, events, seconds, counters });
}

export function begin(): void {
  let asked = "";
  effect(() => {
    const s = state.store.value, at = state.address.value.at;
    void state.beat.value;
    if (!s || at === null || state.file.value) { state.aside.value = null; asked = ""; return; }
    const end = state.viewEnd(s), middle = Math.round(end - state.viewWindow(s) / 2), held = state.aside.peek();
    if (end > s.first) { state.aside.value = null; asked = ""; return; }
    if (held && held.first < end && end - state.viewWindow(s) < held.end) return;
    // Ask once per place: data that are not stored do not arrive later.
    if (asked === `${middle}`) return;
    asked = `${middle}`;
    state.aside.value = null;
    void around(middle, s).then(found => { if (asked === `${middle}`) state.aside.value = found; }, () => {
      // The connection is lost; ask again when the view moves.
      if (asked === `${middle}`) asked = "";
    });
  });
}
