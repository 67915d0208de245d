// The nodes of a map: heights in grey, dark is far; hits and planes by viridis, three planes as colours, units by theirs.
import { useRef } from "preact/hooks";
import { dim, ramp } from "../draw/colour.ts";
import { communityInk, css } from "../net/ink.ts";
import { NO_UNIT, layout, middle, nodeAt, range, share, type Info, type Layout } from "../som/model.ts";
import * as som from "../som/state.ts";
import { colours, painted } from "../theme.ts";
import { useDrawn } from "./Canvas.tsx";
import { font, surface } from "./Panel.tsx";

const GREYS = Array.from({ length: 256 }, (_, k) => { const v = Math.round(245 - k * 0.86); return [v, v, v] as [number, number, number]; });
/** Nodes smaller than this are pixels of a picture. */
const DRAWN_ONE_BY_ONE = 5;

/** A colour a node, or null until it is there; and what the ends of the scale are. */
export function colouring(info: Info): { of: (node: number) => readonly [number, number, number]; low: string; high: string; ramp: readonly (readonly [number, number, number])[] | null } | null {
  const shown = som.shown.value, now = som.surface.value, at = `${info.id}/${info.stages[som.stage.value]?.number}`, digits = (v: number): string => String(Number(v.toPrecision(3))), RAMP = ramp(), greys = dim() ? [...RAMP].reverse() : GREYS;
  if (shown.what === "plane" || shown.what === "rgb") {
    const nodes = info.rows * info.columns, dims = shown.what === "plane" ? [shown.dim] : shown.dims, found = som.planes.value;
    if (found?.of !== `${at} ${dims.join()}`) return null;
    const ranges = dims.map((_, k) => range(found.values, k * nodes, (k + 1) * nodes));
    if (shown.what === "rgb") {
      // One scale for the three, as a picture's colours have.
      const all: [number, number] = [Math.min(...ranges.map(r => r[0])), Math.max(...ranges.map(r => r[1]))];
      return { of: n => [0, 1, 2].map(k => Math.round(255 * share(found.values[k * nodes + n]!, all))) as [number, number, number], low: digits(all[0]), high: digits(all[1]), ramp: null };
    }
    return { of: n => RAMP[Math.round(255 * share(found.values[n]!, ranges[0]!))]!, low: digits(ranges[0]![0]), high: digits(ranges[0]![1]), ramp: RAMP };
  }
  if (!now) return null;
  if (shown.what === "units") return now.units.length === 0 ? null : { of: n => { const u = now.units[n]!; return u === NO_UNIT ? [150, 150, 150] : communityInk(u).map(v => Math.round(v * 255)) as [number, number, number]; }, low: "", high: "", ramp: null };
  if (shown.what === "hits") {
    if (now.hits.length === 0) return null;
    // By their roots: a few nodes win most.
    const most = Math.max(1, range(now.hits)[1]);
    return { of: n => RAMP[Math.round(255 * Math.sqrt(now.hits[n]! / most))]!, low: "0", high: digits(most), ramp: RAMP };
  }
  const ends = range(now.heights);
  return { of: n => greys[Math.round(255 * share(now.heights[n]!, ends))]!, low: digits(ends[0]), high: digits(ends[1]), ramp: greys };
}

function hexagon(g: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  const r = size / Math.sqrt(3), half = size / 2;
  g.beginPath();
  g.moveTo(x, y - r); g.lineTo(x + half, y - r / 2); g.lineTo(x + half, y + r / 2); g.lineTo(x, y + r); g.lineTo(x - half, y + r / 2); g.lineTo(x - half, y - r / 2);
  g.closePath();
}
function outline(g: CanvasRenderingContext2D, info: Info, l: Layout, node: number): void {
  const [x, y] = middle(info, l, node);
  if (info.hexagonal) hexagon(g, x, y, Math.max(6, l.size)); else { const s = Math.max(6, l.size); g.beginPath(); g.rect(x - s / 2, y - s / 2, s, s); }
  g.stroke();
}

/** Draws the map as it is shown into a plane of so many pixels; gives where its nodes lie. */
export function paintField(g: CanvasRenderingContext2D, w: number, h: number, info: Info): Layout {
  const picked = som.cell.value, around = som.around.value;
  const foot = 22, how = colouring(info), l = layout(info, w - 8, h - foot - 8), nodes = info.rows * info.columns;
  l.x += 4; l.y += 4;
  if (!how) return l;
  if (l.size >= DRAWN_ONE_BY_ONE) {
    // A hair more than its place: no seams.
    for (let n = 0; n < nodes; n++) {
      const [x, y] = middle(info, l, n), c = how.of(n);
      g.fillStyle = `rgb(${c[0]} ${c[1]} ${c[2]})`;
      if (info.hexagonal) { hexagon(g, x, y, l.size + 0.6); g.fill(); } else g.fillRect(x - l.size / 2, y - l.size / 2, l.size + 0.5, l.size + 0.5);
    }
  } else {
    const held = document.createElement("canvas"), image = new ImageData(info.columns, info.rows);
    for (let n = 0; n < nodes; n++) image.data.set([...how.of(n), 255], 4 * n);
    held.width = info.columns; held.height = info.rows;
    held.getContext("2d")!.putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    if (!info.hexagonal) g.drawImage(held, l.x - l.size / 2, l.y - l.size / 2, l.wide, l.high);
    else for (let r = 0; r < info.rows; r++) { const [x, y] = middle(info, l, r * info.columns); g.drawImage(held, 0, r, info.columns, 1, x - l.size / 2, y - l.size / 2, info.columns * l.size, l.size); }
  }
  if (picked !== null) {
    g.lineWidth = 1.5; g.strokeStyle = colours.warn.css;
    for (const n of around) outline(g, info, l, n);
    g.lineWidth = 3; g.strokeStyle = colours.bad.css;
    outline(g, info, l, picked);
  }
  const units = som.surface.value?.units;
  if (som.shown.value.what === "units" && units && l.size >= 12) {
    g.font = font(Math.min(13, l.size * 0.5)); g.textAlign = "center"; g.textBaseline = "middle"; g.fillStyle = "#000";
    for (let n = 0; n < nodes; n++) if (units[n] !== NO_UNIT) { const [x, y] = middle(info, l, n); g.fillText((info.units[units[n]!]?.name ?? "").replace(/^unit/, ""), x, y); }
  }
  if (how.ramp) {
    const bar = Math.min(180, w / 2);
    for (let i = 0; i < bar; i++) { const c = how.ramp[Math.floor(255 * i / bar)]!; g.fillStyle = `rgb(${c[0]} ${c[1]} ${c[2]})`; g.fillRect(w / 2 - bar / 2 + i, h - 12, 1.5, 8); }
    g.fillStyle = colours.dim.css; g.font = font(11); g.textBaseline = "middle";
    g.textAlign = "right"; g.fillText(how.low, w / 2 - bar / 2 - 6, h - 7);
    g.textAlign = "left"; g.fillText(how.high, w / 2 + bar / 2 + 6, h - 7);
  }
  return l;
}

export function Field() {
  const canvas = useRef<HTMLCanvasElement>(null), placed = useRef<Layout | null>(null);
  useDrawn(() => {
    void painted.value;
    const info = som.info.value, on = surface(canvas.current);
    if (info && on) placed.current = paintField(on.g, on.w, on.h, info);
  }, canvas);
  const click = (e: MouseEvent): void => {
    const box = canvas.current?.getBoundingClientRect(), info = som.info.value, l = placed.current;
    if (!box || !info || !l) return;
    const node = nodeAt(info, l, e.clientX - box.left, e.clientY - box.top);
    if (node !== null) som.pick(node === som.cell.value ? null : node);
  };
  const key = (e: KeyboardEvent): void => {
    const by: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }, to = by[e.key];
    if (!to || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault(); e.stopPropagation();
    som.moveCell(...to);
  };
  const info = som.info.value;
  return <canvas ref={canvas} class="somfield" tabIndex={0} role="img" onClick={click} onKeyDown={key}
    aria-label={`${info ? `Map of ${info.rows} rows and ${info.columns} columns of ${info.hexagonal ? "hexagons" : "squares"}` : "Map"}; arrow keys go from node to node, the panels beside it say the same in numbers`} />;
}

export function unitCss(unit: number): string { return css(communityInk(unit)); }
