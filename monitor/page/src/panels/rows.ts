// Words, legends and plots on a sheet of paper, from left to right and from top to bottom.
import { safe } from "../draw/escape.ts";
import { font } from "../draw/font.ts";

/** Height of a line of words. */
const LINE = 15;

/** A word, or the line of a legend. */
export type Mark = { words: string; bold: boolean; ink: string } | { dash: string; ink: string };

export interface Sheet { width: number; measure: (text: string, font: string) => number }

/** Puts marks from left to right into lines; gives the markup and the height. */
export function flow(marks: Mark[], x: number, y: number, sheet: Sheet, size = 11): { markup: string; height: number } {
  let at = x, line = 0;
  const parts: string[] = [], space = sheet.measure(" ", font(size));
  for (const mark of marks) {
    const text = "words" in mark, wide = text ? sheet.measure(mark.words, `${mark.bold ? "bold " : ""}${font(size)}`) : 16;
    if (at > x && at + wide > x + sheet.width) { at = x; line++; }
    const base = y + line * LINE + size;
    if (text) parts.push(`<text x="${at.toFixed(1)}" y="${base.toFixed(1)}" font-size="${size}" fill="${mark.ink}"${mark.bold ? ' font-weight="bold"' : ""}>${safe(mark.words)}</text>`);
    else if (mark.dash === "bar") parts.push(`<rect x="${at.toFixed(1)}" y="${(base - 8).toFixed(1)}" width="9" height="9" fill="${mark.ink}"/>`);
    else parts.push(`<path d="M${at.toFixed(1)} ${(base - 4).toFixed(1)}h14" stroke="${mark.ink}" stroke-width="2"${mark.dash === "dashed" ? ' stroke-dasharray="4 3"' : mark.dash === "dotted" ? ' stroke-dasharray="2 3"' : ""}/>`);
    at += wide + space;
  }
  return { markup: parts.join(""), height: marks.length > 0 ? (line + 1) * LINE : 0 };
}

/** Canvases beside each other are a row; each has its share of the width. */
export function rowsOf(boxes: { top: number; height: number; left: number; width: number }[]): number[][] {
  const rows: number[][] = [];
  for (const [k] of [...boxes.entries()].sort((a, b) => a[1].top - b[1].top || a[1].left - b[1].left)) {
    const first = boxes[rows.at(-1)?.[0] ?? -1], box = boxes[k]!;
    if (first && box.top < first.top + first.height / 2 && !rows.at(-1)!.some(j => Math.abs(boxes[j]!.left - box.left) < 1)) rows.at(-1)!.push(k); else rows.push([k]);
  }
  return rows.map(row => row.sort((a, b) => boxes[a]!.left - boxes[b]!.left));
}
