// The nodes of a map: heights in grey, dark is far; hits and planes by viridis, three planes as colours, units by theirs.
import { useRef } from "preact/hooks";
import { dim, ramp } from "../draw/colour.ts";
import { communityInk, css } from "../net/ink.ts";
import { NO_UNIT, bodyAt, layout, middle, nodeAt, project, range, share, sideBySide, tiles, type Body, type Info, type Layout, type Tile, type Turn } from "../som/model.ts";
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

type Ink = (node: number) => readonly [number, number, number];
/** The nodes of one map, and the one that is picked. */
function paintNodes(g: CanvasRenderingContext2D, info: Info, l: Layout, of: Ink): void {
  const picked = som.cell.value, around = som.around.value, nodes = info.rows * info.columns;
  if (l.size >= DRAWN_ONE_BY_ONE) {
    // A hair more than its place: no seams.
    for (let n = 0; n < nodes; n++) {
      const [x, y] = middle(info, l, n), c = of(n);
      g.fillStyle = `rgb(${c[0]} ${c[1]} ${c[2]})`;
      if (info.hexagonal) { hexagon(g, x, y, l.size + 0.6); g.fill(); } else g.fillRect(x - l.size / 2, y - l.size / 2, l.size + 0.5, l.size + 0.5);
    }
  } else {
    const held = document.createElement("canvas"), image = new ImageData(info.columns, info.rows);
    for (let n = 0; n < nodes; n++) image.data.set([...of(n), 255], 4 * n);
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
}

/** The nodes of a map of several layers as discs, the nearest in front. */
function paintBody(g: CanvasRenderingContext2D, body: Body, of: Ink): void {
  const picked = som.cell.value, around = new Set(som.around.value), [low, high] = range(body.near), radius = RADIUS * body.size;
  g.lineWidth = 1;
  for (const n of body.order) {
    const c = of(n), lit = 0.65 + 0.35 * share(body.near[n]!, [low, high]);
    g.beginPath(); g.arc(body.x[n]!, body.y[n]!, Math.max(1, radius), 0, 2 * Math.PI);
    g.fillStyle = `rgb(${c.map(v => Math.round(v * lit)).join(" ")})`; g.fill();
    if (n === picked || around.has(n)) { g.lineWidth = n === picked ? 3 : 1.5; g.strokeStyle = n === picked ? colours.bad.css : colours.warn.css; g.stroke(); }
  }
}
/** Radius of a disc, in sizes of a node. */
const RADIUS = 0.36;

/** The U-matrix and component planes side by side, each in its own scale. */
function paintTiles(g: CanvasRenderingContext2D, w: number, h: number, info: Info, from: number): Layout[] {
  const now = som.surface.value, held = som.gallery.value, dims = sideBySide(info.dims, from), of = `${info.id}/${info.stages[som.stage.value]?.number} ${dims.join()}`, RAMP = ramp();
  const placed = tiles(dims.length + 1, info, w, h, 18).map((t: Tile) => { const l = layout(info, t.w, t.h); return { ...l, x: l.x + t.x, y: l.y + t.y, top: t.y, left: t.x }; });
  placed.forEach((l, k) => {
    const values = k === 0 ? now?.heights : held?.of === of ? held.values[k - 1] : undefined;
    g.fillStyle = colours.dim.css; g.font = font(11); g.textAlign = "left"; g.textBaseline = "bottom";
    g.fillText(k === 0 ? "U-matrix" : info.names?.[dims[k - 1]!] ?? String(dims[k - 1]), l.left, l.top - 3);
    if (!values) return;
    const ends = range(values), inks = k === 0 ? (dim() ? [...RAMP].reverse() : GREYS) : RAMP;
    paintNodes(g, info, l, n => inks[Math.round(255 * share(values[n]!, ends))]!);
  });
  return placed;
}

/** Places of the nodes in a picture: of one map, of several side by side, or in three dimensions. */
export interface Placed { maps: Layout[]; body: Body | null }
/** Draws the map as it is shown into a plane of so many pixels; gives where its nodes lie. */
export function paintField(g: CanvasRenderingContext2D, w: number, h: number, info: Info): Placed {
  const shown = som.shown.value, turn: Turn | null = som.turn3d.value;
  if (shown.what === "all") return { maps: paintTiles(g, w, h, info, shown.from), body: null };
  const foot = 22, how = colouring(info), l = layout(info, w - 8, h - foot - 8), nodes = info.rows * info.columns;
  const body = turn ? project(info, turn, w - 8, h - foot - 8) : null;
  l.x += 4; l.y += 4;
  if (!how) return { maps: [l], body };
  if (body) paintBody(g, body, how.of); else paintNodes(g, info, l, how.of);
  const units = som.surface.value?.units;
  if (shown.what === "units" && units && !body && l.size >= 12) {
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
  return { maps: [l], body };
}

/** Pixels by which a pointer moves before it rotates, and degrees per pixel. */
const STILL = 3, DEGREES = 0.5;
export function Field() {
  const canvas = useRef<HTMLCanvasElement>(null), placed = useRef<Placed | null>(null), drag = useRef<{ x: number; y: number; far: boolean } | null>(null);
  useDrawn(() => {
    void painted.value;
    const info = som.info.value, on = surface(canvas.current);
    if (info && on) placed.current = paintField(on.g, on.w, on.h, info);
  }, canvas);
  const click = (e: MouseEvent): void => {
    const box = canvas.current?.getBoundingClientRect(), info = som.info.value, l = placed.current;
    if (!box || !info || !l || drag.current?.far) return;
    const x = e.clientX - box.left, y = e.clientY - box.top;
    const node = l.body ? bodyAt(l.body, RADIUS * l.body.size, x, y) : l.maps.map(m => nodeAt(info, m, x, y)).find(n => n !== null) ?? null;
    if (node !== null) som.pick(node === som.cell.value ? null : node);
  };
  const press = (e: PointerEvent): void => { drag.current = { x: e.clientX, y: e.clientY, far: false }; };
  const move = (e: PointerEvent): void => {
    const from = drag.current;
    if (!from || e.buttons === 0 || !som.turn3d.value || !from.far && Math.hypot(e.clientX - from.x, e.clientY - from.y) < STILL) return;
    som.rotate((from.x - e.clientX) * DEGREES, (e.clientY - from.y) * DEGREES);
    drag.current = { x: e.clientX, y: e.clientY, far: true };
  };
  const key = (e: KeyboardEvent): void => {
    const by: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }, to = by[e.key];
    if (!to || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault(); e.stopPropagation();
    if (e.shiftKey && som.turn3d.value) som.rotate(10 * to[1], -10 * to[0]); else som.moveCell(...to);
  };
  const info = som.info.value;
  return <canvas ref={canvas} class="somfield" tabIndex={0} role="img" onClick={click} onPointerDown={press} onPointerMove={move} onKeyDown={key}
    aria-label={`${info ? `Map of ${info.rows} rows and ${info.columns} columns of ${info.hexagonal ? "hexagons" : "squares"}` : "Map"}; arrow keys go from node to node${som.turn3d.value ? ", with Shift they turn it" : ""}, the panels beside it say the same in numbers`} />;
}

export function unitCss(unit: number): string { return css(communityInk(unit)); }
