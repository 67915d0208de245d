import { plural } from "../draw/format.ts";
// Alarms of a session in words, and the numbers of the status band that are computed from what the page has.
import { percentile, type Second, type Store } from "./store.ts";

export interface Alarm { kind: "warn" | "bad"; words: string }
const MINUTE = 60, TREND_SECONDS = 30;
/** An R² that fell by this much raises an alarm; a smaller change than `STEADY` is no trend. */
const FALL = 0.15, STEADY = 0.02;
/** Share of the deadline that must stay free at the 99th percentile. */
const LEAST_MARGIN = 0.25;

/** Mean R² now and half a minute earlier; NaN where it is not known. Both are means of the half minute before them. */
export function trend(seconds: Second[]): { now: number; before: number } {
  const last = seconds.findLastIndex(s => !Number.isNaN(s.r2));
  return { now: seconds[last]?.r2 ?? NaN, before: seconds[last - TREND_SECONDS]?.r2 ?? NaN };
}
export const arrow = ({ now, before }: { now: number; before: number }): string => Number.isNaN(now - before) ? "" : now - before > STEADY ? "↗" : before - now > STEADY ? "↘" : "→";

/** Share of the deadline that 99 % of the last minute's steps leave free; negative if they take longer. */
export const margin = (s: Store, deadline: number | null): number => deadline === null ? NaN : 1 - percentile(s.recentLatency(), 0.99) / deadline;

export function alarms(s: Store, deadline: number | null): Alarm[] {
  const found: Alarm[] = [], from = s.end - Math.round(MINUTE / s.shape.stepSeconds);
  const missed = s.misses.reduce((n, m) => n + (m.tick >= from && m.tick < s.end ? 1 : 0), 0);
  if (missed > 0) found.push({ kind: "bad", words: `${plural(missed, "deadline")} missed in the last minute` });
  const free = margin(s, deadline);
  if (free < LEAST_MARGIN) found.push({ kind: "warn", words: free <= 0 ? "more than 1 % of the steps take as long as the deadline" : `1 % of the steps take more than ${Math.round((1 - free) * 100)} % of the deadline` });
  const r2 = trend(s.seconds);
  if (r2.before - r2.now > FALL) found.push({ kind: "warn", words: `R² fell from ${r2.before.toFixed(2)} to ${r2.now.toFixed(2)} within ${TREND_SECONDS} s` });
  const hidden = s.hidden(Math.max(from, s.first), s.end) * s.shape.stepSeconds;
  if (hidden > 0) found.push({ kind: "warn", words: `${hidden.toFixed(hidden < 0.1 ? 3 : 1)} s of the last minute did not reach this page` });
  return found;
}
