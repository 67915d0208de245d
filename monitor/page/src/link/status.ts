// State of a session that its program reports, as facts for the status band.
import { bytes, duration, plural, whole } from "../draw/format.ts";

export interface SessionStatus {
  recording: { folder: string; bytes: number; unrecorded: number; fill: number; full: boolean } | null;
  learning: { trials: number; accepted: number; refused: number; rolled_back: number; unstored: number; proposed: boolean; dead: boolean } | null;
  /** Nats; null if it is not known. */
  unlike_training: number | null;
  recalibration: { windows: number; suggested: boolean; applied: boolean; roll_back: boolean; dead: boolean } | null;
  notes: { labels: number; marks: number; trials: number; refused: number } | null;
  /** From the arrival of a step's data to the hand-over of its outputs, in microseconds; null before the first step. */
  arrival_to_output: { p50_us: number; p99_us: number; max_us: number } | null;
  /** Steps that were made without data of any source. */
  without_data: number;
  /** Steps that a decoder which is too slow left out. */
  behind: number;
  sources: { name: string; lost: number; at_least: boolean; bound_us: number | null; silent_ms: number | null }[];
}
/** Name, value, kind, and an explanation. */
export type Fact = [string, string, "" | "warn" | "bad", string];
/** A source that sends nothing for this long is said to be silent. */
const SILENT_MS = 1000;
/** From this share of the recorder's buffer on, the disk is said to be slow. */
const SLOW = 0.25;

export function statusFacts(s: SessionStatus): Fact[] {
  const { recording: r, learning: l, recalibration: c, unlike_training: u, notes: n } = s, facts: Fact[] = [];
  facts.push(!r ? ["recording", "off", "", "Not recorded"]
    : ["recording", ...(r.full ? ["disk full", "bad"] : r.unrecorded > 0 ? [`${plural(r.unrecorded, "frame")} missing`, "bad"] : r.fill >= SLOW ? [`slow disk, buffer ${whole(r.fill * 100)} % full`, "warn"] : [bytes(r.bytes), ""]) as [string, "" | "warn" | "bad"], `In ${r.folder}`]);
  if (l) {
    const counts = `Candidates: ${l.accepted} accepted, ${l.refused} refused, ${l.rolled_back} rolled back`;
    facts.push(["adaptation", ...(l.dead ? ["ended", "bad"] : l.unstored > 0 ? [`${plural(l.unstored, "model")} not stored`, "warn"] : l.proposed ? ["a model waits", "warn"] : [`${plural(l.trials, "trial")}`, ""]) as [string, "" | "warn" | "bad"], counts]);
  } else facts.push(["adaptation", "off", "", "No trainer"]);
  if (typeof u === "number") facts.push(["unlike training", `${u.toFixed(3)} nats`, "", "KL divergence of the newest window from training. A change of behaviour raises it, too: it does not measure a loss of quality"]);
  if (c) facts.push(["recalibration", ...(c.dead ? ["ended", "bad"] : c.roll_back ? ["advises to roll back", "warn"] : c.suggested ? ["a model waits", "warn"] : c.applied ? ["recalibrated", "warn"] : [`${plural(c.windows, "window")}`, ""]) as [string, "" | "warn" | "bad"], `Recalibration without labels: ${c.windows} windows compared`]);
  if (n) facts.push(["labels", whole(n.labels), n.refused > 0 ? "warn" : "", `${n.marks} marks, ${n.trials} trial begins and ends, ${n.refused} refused`]);
  if (s.without_data > 0) facts.push(["without data", `${whole(s.without_data)} step${s.without_data === 1 ? "" : "s"}`, "warn", "Steps for which no source sent data in time"]);
  if (s.behind > 0) facts.push(["too slow", `${plural(s.behind, "step")} left out`, "bad", "The decoder takes longer for a step than it lasts"]);
  for (const o of s.sources) {
    const silent = o.silent_ms !== null && o.silent_ms > SILENT_MS, clock = o.bound_us === null ? "" : ` ± ${duration(o.bound_us * 1e3)}`;
    const value = o.silent_ms === null ? "nothing yet" : silent ? `silent for ${whole(o.silent_ms / 1000)} s` : `${o.at_least ? "≥ " : ""}${whole(o.lost)} lost${clock}`;
    facts.push([o.name, value, silent || o.silent_ms === null ? "bad" : o.lost > 0 ? "warn" : "", "Rows that never came; bound of the clock's error"]);
  }
  return facts;
}
