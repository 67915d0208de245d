// Values from left to right, each by its place, with the least and the greatest of them.
import { range, share } from "../som/model.ts";
import { colours } from "../theme.ts";
import { font } from "./font.ts";

const digits = (v: number): string => String(Number(v.toPrecision(3)));

/** Draws them over the whole of a canvas of `w` × `h` CSS pixels, with a line at zero if it lies between. */
export function drawCourse(g: CanvasRenderingContext2D, w: number, h: number, values: ArrayLike<number>, ink: string): void {
  const ends = range(values), x = (k: number) => 6 + k / Math.max(1, values.length - 1) * (w - 12), y = (v: number) => h - 6 - share(v, ends) * (h - 24);
  g.strokeStyle = colours.line.css; g.lineWidth = 1;
  if (ends[0] < 0 && ends[1] > 0) { g.beginPath(); g.moveTo(0, y(0)); g.lineTo(w, y(0)); g.stroke(); }
  g.strokeStyle = ink; g.lineWidth = 1.6;
  g.beginPath(); for (let k = 0; k < values.length; k++) if (k === 0) g.moveTo(x(k), y(values[k]!)); else g.lineTo(x(k), y(values[k]!)); g.stroke();
  g.fillStyle = colours.dim.css; g.font = font(10); g.textAlign = "right"; g.textBaseline = "top"; g.fillText(`${digits(ends[0])} to ${digits(ends[1])}`, w - 4, 2);
  g.textAlign = "left";
}
