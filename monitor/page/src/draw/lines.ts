// Lines at moments, through all panels: trials, missed deadlines, swaps, masks and marks.
import { lowerBound, type Happened, type Store } from "../link/store.ts";
import { colours } from "../theme.ts";

export type Kind = "trial" | "miss" | "event";
export interface MomentLine { tick: number; kind: Kind }
/** Lines closer than this, in pixels, are left out: they would be a surface. */
const APART = 12;

/** True for events that have a line and a sign: swaps, masks and marks. */
export const isMoment = (event: Happened): boolean => !["swap state", "target", "verdict"].includes(event.type);

/** Moments in [from, to) that get a line on a plot of so many pixels: trials only if none is too close to the next. */
export function momentLines(s: Store, from: number, to: number, wide: number): MomentLine[] {
  const all: MomentLine[] = [], apart = APART / wide * (to - from), trials = s.trials.slice(lowerBound(s.trials, s.trials.length, from), lowerBound(s.trials, s.trials.length, to));
  if (trials.every((t, i) => i === 0 || t - trials[i - 1]! >= apart)) for (const tick of trials) all.push({ tick, kind: "trial" });
  let last = -Infinity;
  for (const { tick } of s.misses) if (tick >= from && tick < to && tick - last >= apart) { last = tick; all.push({ tick, kind: "miss" }); }
  for (const event of s.events) if (event.tick >= from && event.tick < to && isMoment(event)) all.push({ tick: event.tick, kind: "event" });
  return all;
}

/** Draws them from top to bottom. */
export function strokeMoments(g: CanvasRenderingContext2D, s: Store, from: number, to: number, [left, top, w, h]: [number, number, number, number], ratio = 1): void {
  for (const { tick, kind } of momentLines(s, from, to, w / ratio)) {
    const x = left + (tick - from) / (to - from) * w;
    g.strokeStyle = kind === "trial" ? colours.dim.css : kind === "miss" ? colours.bad.css : colours.warn.css;
    g.globalAlpha = kind === "trial" ? 0.45 : 0.8;
    g.lineWidth = ratio;
    g.setLineDash(kind === "trial" ? [3 * ratio, 3 * ratio] : []);
    g.beginPath(); g.moveTo(x, top); g.lineTo(x, top + h); g.stroke();
  }
  g.setLineDash([]); g.globalAlpha = 1; g.lineWidth = 1;
}
