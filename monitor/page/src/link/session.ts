// The session's history by second and the verdict on its decoder, as the server keeps them: every page has the same.
import type { Store } from "./store.ts";

/** Numbers of some seconds of the session. */
export interface Slot {
  at: number; seconds: number; steps: number; spikes: number; misses: number;
  lost: number; late: number; unknown: number; not_shown: number;
  /** Steps whose estimates were flagged. */
  flags: { clamped: number; out_of_range: number; blanked: number; non_finite: number; held: number };
  computing: { p50_ns: number; p99_ns: number; longest_ns: number } | null;
  arrival: { p50_us: number; p99_us: number; max_us: number } | null;
  /** R² of each output over the half minute before its end. */
  r2: (number | null)[];
  silent: number[]; noisy: number[]; masked: number; model: string;
}
export type Level = "unknown" | "good" | "watch" | "bad";
export interface Verdict {
  level: Level;
  /** Second of the session's clock from which it holds. */
  since: number;
  words: string;
  causes: { kind: string; level: Level; since: number; channels: number[]; words: string }[];
  r2: number | null; trained_r2: number | null;
}
export interface SessionHistory { slots: Slot[]; verdict: Verdict; past: { from: number; to: number; level: Level; words: string }[] }

/** Mean R² over the outputs that have one; NaN if none has. */
export const meanR2 = (slot: Pick<Slot, "r2">): number => { const known = slot.r2.filter(v => v !== null); return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : NaN; };

/** The history as the server has it; null if it has none. */
export async function readHistory(): Promise<SessionHistory | null> {
  const answer = await fetch("api/history");
  return answer.ok ? await answer.json() as SessionHistory : null;
}

/** Everything before this page came. */
export async function sessionSoFar(s: Store): Promise<void> {
  const history = await readHistory();
  if (!history) return;
  const { slots, verdict, past } = history;
  for (const slot of slots) s.slot(slot);
  s.verdict = verdict;
  s.verdicts = past;
  s.version++;
}

const LEADS: Record<Level, string> = { unknown: "", good: "", watch: "Watch since", bad: "Bad since" };
/** The verdict in a line; `clock` writes a time. */
export const verdictWords = (v: Verdict, clock: (seconds: number) => string): string => `${LEADS[v.level] && `${LEADS[v.level]} ${clock(v.since)}: `}${v.words}`;
