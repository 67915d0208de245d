import assert from "node:assert/strict";
import { test } from "node:test";
import { logTicks } from "../src/draw/format.ts";
import { SvgCanvas } from "../src/draw/svg.ts";
import { flow, rowsOf } from "../src/panels/rows.ts";

const measure = (text: string): number => text.length * 6;

test("what a panel draws becomes vectors", () => {
  const g = new SvgCanvas(measure);
  g.fillStyle = "#123456";
  g.fillRect(1, 2, 3, 4); g.fillRect(5, 6, 7, 8);
  g.strokeStyle = "red"; g.lineWidth = 1.5; g.setLineDash([5, 4]);
  g.beginPath(); g.moveTo(0, 0); g.lineTo(NaN, 1); g.lineTo(10, 0.123456); g.stroke();
  g.font = "bold 12px system-ui"; g.textAlign = "right"; g.textBaseline = "top"; g.fillText("a < b", 10, 20, 12);
  // Boxes of one colour are one shape; text stands where a canvas puts it.
  assert.equal(g.markup, '<path d="M1 2h3v4h-3ZM5 6h7v8h-7Z" fill="#123456"/>'
    + '<path d="M0 0L10 0.12" stroke="red" fill="none" stroke-width="1.5" stroke-dasharray="5 4"/>'
    + '<text x="10" y="29.6" font-size="12" font-weight="bold" text-anchor="end" textLength="12" lengthAdjust="spacingAndGlyphs" fill="#123456">a &#60; b</text>');
});

test("boxes that are seen through stay apart, circles are whole, and clips end with their state", () => {
  const g = new SvgCanvas(measure);
  g.globalAlpha = 0.5; g.fillRect(0, 0, 1, 1); g.fillRect(0, 0, 1, 1);
  assert.equal(g.markup.match(/<path/g)!.length, 2);
  g.globalAlpha = 1;
  g.beginPath(); g.arc(10, 10, 2, 0, 7); g.fill();
  assert.match(g.markup, /M12 10A2 2 0 0 1 8 10A2 2 0 0 1 12 10Z/);
  g.save(); g.fillStyle = "blue"; g.beginPath(); g.rect(0, 0, 5, 5); g.clip(); g.fillRect(0, 0, 9, 9); g.restore();
  assert.match(g.markup, /<g clip-path="url\(#c\d+\)"><path d="M0 0h9v9h-9Z" fill="blue"\/><\/g>$/);
  assert.equal(g.fillStyle, "#000");
  g.save(); g.beginPath(); g.rect(0, 0, 5, 5); g.clip();
  assert.ok(g.markup.endsWith("</g>"), "what is open is closed");
});

test("words and legends flow into lines, and plots beside each other are a row", () => {
  const words = (text: string) => text.split(" ").map(words => ({ words, bold: false, ink: "#000" }));
  const { markup, height } = flow([...words("one two"), { dash: "dashed", ink: "red" }, ...words("three")], 10, 0, { width: 60, measure });
  assert.equal(height, 30);
  assert.match(markup, /stroke="red"[^>]*stroke-dasharray/);
  assert.match(markup, /<text x="32.0" y="26.0"[^>]*>three</);
  const box = (top: number, left: number, height = 100, width = 100) => ({ top, left, height, width });
  assert.deepEqual(rowsOf([box(0, 200), box(5, 0), box(110, 0), box(300, 0)]), [[1, 0], [2], [3]]);
  // Lines below each other beside a higher plot: the plot is in the row of the first.
  assert.deepEqual(rowsOf([box(0, 300, 200), box(0, 0, 90), box(95, 0, 90)]), [[1, 0], [2]]);
});

test("an axis of logarithms has round values", () => {
  assert.deepEqual(logTicks(900, 60_000), [1000, 2000, 5000, 10_000, 20_000, 50_000]);
  assert.deepEqual(logTicks(50, 2e6), [100, 1000, 10_000, 100_000, 1e6]);
  assert.deepEqual(logTicks(0, 10), []);
});
