// The vertical axis of small plots: lines across them, with their values and unit on the left, inside the plot.
import { colours } from "../theme.ts";
import { font } from "./font.ts";
import { brief, ticks } from "./format.ts";

/** Pixels between two lines. */
const APART = 34;

/** Round values from `low` to `high`, which are at `y(value)`. */
const valuesOf = ([low, high]: [number, number], y: (value: number) => number): number[] => ticks(low, high, Math.max(2, Math.abs(y(low) - y(high)) / APART));

/** Draws lines across the plot at round values: before what is plotted. */
export function valueLines(g: CanvasRenderingContext2D, w: number, ends: [number, number], y: (value: number) => number): void {
  g.fillStyle = colours.line.css;
  for (const v of valuesOf(ends, y)) g.fillRect(0, Math.round(y(v)), w, 1);
}

/** Writes the values of these lines, the highest one with its unit: after what is plotted. */
export function valueAxis(g: CanvasRenderingContext2D, ends: [number, number], y: (value: number) => number, unit: string): void {
  const all = valuesOf(ends, y);
  g.font = font(10); g.textAlign = "left"; g.textBaseline = "bottom";
  for (const [k, v] of all.entries()) {
    const at = Math.round(y(v)), words = k === all.length - 1 ? `${brief(v)} ${unit}` : brief(v);
    g.fillStyle = colours.dim.css; g.textBaseline = at < 13 ? "top" : "bottom"; g.fillText(words, 2, at < 13 ? at + 2 : at - 1);
  }
}
