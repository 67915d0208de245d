// Nodes and edges: pan, zoom, a lasso, a node under the pointer.
import { signal, untracked, useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { GraphView, MOST_PLAIN, drawPlain, type Layer, type Nodes, type View } from "../../draw/graph.ts";
import { bounds, fitted, linksOf, prefix, within, type Link } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { css } from "../../net/ink.ts";
import { colours } from "../../theme.ts";
import { useDrawn } from "../Canvas.tsx";
import { surface } from "../Panel.tsx";

/** What is shown of the plane; null: all that has edges. */
export const shownView = signal<View | null>(null);
/** The part that the first picture shows, in the nodes' coordinates, for the map beside it. */
export const part = signal<[number, number, number, number] | null>(null);
/** Milliseconds of script of the last picture and of the last filling of buffers, for those who measure; the edges above the threshold, and those drawn. */
export const spent = { ms: 0, filled: 0, edges: 0, drawn: 0 };
/** A picture that changes has the strongest edges that can be drawn in so many milliseconds; all of them, once it has stood still for so many. */
const MOVING_MS = 30, STILL_MS = 200;
/** Of more edges than this, the strongest are drawn: further ones cover the picture. All on demand. */
export const MOST_EDGES = 30_000;

export interface Shape { places: Float32Array; nodes: Nodes; layers: Layer[]; counts: (node: number) => boolean; label: string; head: boolean }

/** Where a picture lies in the nodes' coordinates. */
export const extentOf = (image: { extent: number[] | null; picture: HTMLImageElement }): number[] => image.extent ?? [0, 0, image.picture.naturalWidth, image.picture.naturalHeight];
export function drawImage(g: CanvasRenderingContext2D, image: { extent: number[] | null; picture: HTMLImageElement }, x: (v: number) => number, y: (v: number) => number): void {
  const [l, t, r, b] = extentOf(image) as [number, number, number, number];
  g.save();
  g.translate(x(l), y(t));
  g.scale(Math.sign(x(r) - x(l)), Math.sign(y(b) - y(t)));
  g.drawImage(image.picture, 0, 0, Math.abs(x(r) - x(l)), Math.abs(y(b) - y(t)));
  g.restore();
}

export function zoomBy(factor: number, view: View, x: number, y: number): View {
  const scale = Math.min(1e9, Math.max(1e-9, view.scale * factor));
  return { x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale, scale };
}

/** Of the node under the pointer: its edges, the strongest with their values, and where it lies; of every session. */
function Tip({ places, view, wide }: { places: () => Float32Array | undefined; view: () => View; wide: () => number }) {
  const n = net.hovered.value, at = places(), l = net.first.value;
  if (n === null || !at || 2 * n >= at.length) return null;
  const v = view(), own = l?.info.positions?.[n], named = (k: number): string => l?.info.names?.[k] ?? String(k), x = (at[2 * n]! - v.x) * v.scale, y = (at[2 * n + 1]! - v.y) * v.scale, w = wide();
  return <div class="tip" style={{ [x > w / 2 ? "right" : "left"]: `${(x > w / 2 ? w - x : x) + 14}px`, top: `${y + 14}px` }}><b>{named(n)}</b>{own && ` at ${own.map(v => Number(v.toPrecision(5))).join(", ")}`}
    {net.loaded.value.map((one, s) => { const e = n < one.info.nodes ? net.edgesOf(one) : null, links = e ? linksOf(e, prefix(e.key, net.threshold.value), n, net.region.value) : [];
      return <div key={s}>{net.loaded.value.length > 1 && `${one.info.name}: `}{links.length} edges{links.slice(0, 4).map(k => <span key={k.node}> · {k.r.toFixed(2)} {named(k.node)}</span>)}{links.length > 4 && " …"}</div>; })}</div>;
}

/** Edges of a node in a layer, without looking for them again for every picture. */
const linked = new WeakMap<Layer, { node: number; inside: Uint8Array | null; links: Link[] }>();
function pickedLinks(l: Layer, node: number): Link[] {
  const known = linked.get(l), inside = net.region.value;
  if (known?.node === node && known.inside === inside) return known.links;
  const links = inside && !inside[node] ? [] : linksOf(l.edges, l.n, node, inside);
  linked.set(l, { node, inside, links });
  return links;
}

/** `all`: the shapes of the pictures side by side, of which this one is number `k`. */
export function Graph({ all, k, title }: { all: () => Shape[]; k: number; title?: string }) {
  const shape = (): Shape | null => all()[k] ?? null;
  const canvas = useRef<HTMLCanvasElement>(null), below = useRef<HTMLCanvasElement>(null), top = useRef<HTMLCanvasElement>(null), picture = useRef<GraphView | "plain" | null>(null), view = useRef<View>({ x: 0, y: 0, scale: 1 });
  const drag = useRef<{ x: number; y: number; view: View; lasso: [number, number][] | null; moved: boolean } | null>(null), lasso = useSignal<[number, number][] | null>(null), partial = useSignal(0), thinned = useSignal<{ drawn: number; edges: number } | null>(null), whole = useRef(true), later = useRef(0), [cut, setCut] = useState(0), [plain, setPlain] = useState(false);
  const again = useRef(() => {}), draw = (): void => {
    const now = shape(), on = canvas.current;
    if (!now || !on || on.clientWidth < 2) return;
    if (picture.current === null) try { picture.current = new GraphView(on, () => again.current()); } catch { picture.current = "plain"; setPlain(true); }
    view.current = shownView.value ?? fitted(all().map(s => bounds(s.places, s.counts)), k, all().every(s => s.places.length === now.places.length), on.clientWidth, on.clientHeight);
    const v = view.current;
    if (now.head) part.value = [v.x, v.y, v.x + on.clientWidth / v.scale, v.y + on.clientHeight / v.scale];
    const edges = now.layers.reduce((sum, l) => sum + l.n, 0);
    if (picture.current === "plain") {
      const plane = surface(on), drawn = plane ? drawPlain(plane.g, plane.w, plane.h, now.nodes, now.layers, v) : 0;
      setCut(edges > MOST_PLAIN ? drawn : 0);
    } else {
      const most = net.allEdges.value ? Infinity : MOST_EDGES, drawn = picture.current.draw(now.nodes, now.layers, v, Math.min(most, whole.current ? Infinity : picture.current.within(MOVING_MS)));
      whole.current = false;
      clearTimeout(later.current);
      // Each layer's share is rounded down.
      const wanted = edges > most ? most - now.layers.length : edges;
      if (drawn < wanted) later.current = window.setTimeout(() => { whole.current = true; again.current(); }, STILL_MS);
      partial.value = drawn < wanted ? drawn : 0;
      thinned.value = edges > most && drawn >= wanted ? { drawn, edges } : null;
      Object.assign(spent, { ms: picture.current.spent, filled: picture.current.filled, edges, drawn });
    }
    paintBelow(v);
    // What lies over it is drawn of its own accord, too, where nothing but the pointer moved.
    untracked(marks);
  };
  /** The picture that the nodes lie on. */
  const paintBelow = (v: View): void => {
    const on = surface(below.current), image = net.placing.value === "place" ? net.image.value : null;
    if (on && image) drawImage(on.g, image, p => (p - v.x) * v.scale, p => (p - v.y) * v.scale);
  };
  /** Edges of the node that is picked; rings round it and the node under the pointer; the lasso. */
  const marks = (): void => {
    const on = surface(top.current), now = shape(), v = view.current, around = lasso.value;
    if (!on || !now) return;
    const { g } = on, x = (n: number) => (now.places[2 * n]! - v.x) * v.scale, y = (n: number) => (now.places[2 * n + 1]! - v.y) * v.scale;
    const picked = net.node.value;
    if (picked !== null && 2 * picked < now.places.length) for (const l of now.layers) {
      g.strokeStyle = now.layers.length > 1 ? css(l.ink) : colours.bad.css;
      for (const { node, r } of pickedLinks(l, picked)) {
        // As wide by strength as the other edges, and one pixel wider.
        g.lineWidth = 1.7 + 2.6 * Math.min(1, Math.max(0, ((net.first.value?.info.distance ? -r : r) - l.lowest) / Math.max(1e-9, l.highest - l.lowest)));
        g.beginPath(); g.moveTo(x(picked), y(picked)); g.lineTo(x(node), y(node)); g.stroke();
      }
    }
    for (const [n, ink, wide] of [[net.hovered.value, colours.ink.css, 1.4], [net.node.value, colours.bad.css, 2.2]] as const) {
      if (n === null || 2 * n >= now.places.length) continue;
      g.strokeStyle = ink; g.lineWidth = wide;
      g.beginPath(); g.arc(x(n), y(n), (now.nodes.size[n] ?? 3) + 4, 0, 2 * Math.PI); g.stroke();
    }
    if (around) { g.strokeStyle = colours.ink.css; g.setLineDash([4, 3]); g.lineWidth = 1.2; g.beginPath(); around.forEach(([a, b], k) => k === 0 ? g.moveTo(a, b) : g.lineTo(a, b)); g.closePath(); g.stroke(); g.setLineDash([]); }
  };
  again.current = useDrawn(draw, canvas);
  useDrawn(marks, top);
  useEffect(() => () => clearTimeout(later.current), []);
  const at = (e: MouseEvent): [number, number] => { const box = canvas.current!.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  const near = (px: number, py: number): number | null => {
    const now = shape(), v = view.current;
    if (!now) return null;
    let best: number | null = null, least = 14 * 14;
    for (let n = 0; 2 * n < now.places.length; n++) {
      if (now.nodes.ink[4 * n + 3] === 0) continue;
      const dx = (now.places[2 * n]! - v.x) * v.scale - px, dy = (now.places[2 * n + 1]! - v.y) * v.scale - py, d = dx * dx + dy * dy;
      if (d < least) { least = d; best = n; }
    }
    return best;
  };
  const wheel = (e: WheelEvent): void => { e.preventDefault(); shownView.value = zoomBy(e.deltaY > 0 ? 0.85 : 1.18, view.current, ...at(e)); };
  useEffect(() => {
    const on = canvas.current;
    on?.addEventListener("wheel", wheel, { passive: false });
    return () => on?.removeEventListener("wheel", wheel);
  });
  const move = (e: MouseEvent): void => {
    const [px, py] = at(e), d = drag.current;
    if (!d) { net.hovered.value = near(px, py); return; }
    d.moved ||= Math.abs(px - d.x) + Math.abs(py - d.y) > 3;
    if (d.lasso) { d.lasso.push([px, py]); lasso.value = [...d.lasso]; return; }
    if (d.moved) shownView.value = { ...d.view, x: d.view.x - (px - d.x) / d.view.scale, y: d.view.y - (py - d.y) / d.view.scale };
  };
  const up = (e: MouseEvent): void => {
    const d = drag.current, now = shape(), v = view.current;
    drag.current = null;
    lasso.value = null;
    if (!d || !now) return;
    if (d.lasso && d.lasso.length > 3) {
      const inside: number[] = [];
      for (let n = 0; 2 * n < now.places.length; n++) if (within(d.lasso, (now.places[2 * n]! - v.x) * v.scale, (now.places[2 * n + 1]! - v.y) * v.scale)) inside.push(n);
      net.setRegion(inside);
    } else if (!d.moved) { const n = near(...at(e)); net.say({ node: n === null ? undefined : String(n) }); }
  };
  return <div class="graph">
    {title && <h3>{title}</h3>}
    <div class="field">
      <canvas ref={below} class="under" aria-hidden="true" />
      <canvas ref={canvas} class="net" tabIndex={0} role="img" aria-label={shape()?.label ?? "Network"} onMouseMove={move} onMouseLeave={() => { net.hovered.value = null; }}
        onMouseDown={e => { const [x, y] = at(e); drag.current = { x, y, view: view.current, lasso: e.altKey || e.shiftKey ? [[x, y]] : null, moved: false }; }}
        onMouseUp={up} onDblClick={() => { shownView.value = null; }} />
      <canvas ref={top} class="over" aria-hidden="true" />
      <Tip places={() => shape()?.places} view={() => view.current} wide={() => canvas.current?.clientWidth ?? 0} />
      <Partial drawn={partial} /><Thinned drawn={thinned} />
      {plain && <p class="note plain">no WebGL2: drawn on a 2-D canvas{cut > 0 ? `, the ${cut.toLocaleString("en")} strongest edges` : ""}</p>}
    </div>
  </div>;
}

/** The number of edges of a still picture, if it does not have all. */
function Thinned({ drawn }: { drawn: { value: { drawn: number; edges: number } | null } }) {
  const now = drawn.value;
  return now && <p class="note plain">the {now.drawn.toLocaleString("en")} strongest of {now.edges.toLocaleString("en")} edges <button class="link" onClick={() => net.say({ ea: "all" })}>draw all</button></p>;
}

/** What a picture that moves leaves out. */
function Partial({ drawn }: { drawn: { value: number } }) {
  return drawn.value > 0 ? <p class="note plain">while it moves: the {drawn.value.toLocaleString("en")} strongest edges</p> : null;
}
