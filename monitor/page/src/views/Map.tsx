// A self-organising map: its nodes, how training went, stage by stage, and what one node holds.
import { useEffect } from "preact/hooks";
import { drawCourse } from "../draw/course.ts";
import { plural, ticks, whole } from "../draw/format.ts";
import { Plane } from "../panels/Canvas.tsx";
import { Field, paintField, unitCss } from "../panels/Field.tsx";
import { origin, save } from "../panels/Export.tsx";
import { table } from "../draw/table.ts";
import { Panel, font } from "../panels/Panel.tsx";
import { stageWords, MOST_SIDE_BY_SIDE, NO_UNIT, range, share, type Info } from "../som/model.ts";
import * as som from "../som/state.ts";
import * as state from "../state.ts";
import { colours, painted } from "../theme.ts";

const digits = (v: number | null | undefined, n = 4): string => v === null || v === undefined ? "–" : String(Number(v.toPrecision(n)));
const nameOf = (info: Info, dim: number): string => info.names?.[dim] ?? String(dim);
/** More components than this are asked for by number. */
const MOST_LISTED = 64;

function Which({ info, dim, label, set }: { info: Info; dim: number; label: string; set: (dim: number) => void }) {
  if (info.dims <= MOST_LISTED) return <label>{label} <select value={String(dim)} onChange={e => set(Number(e.currentTarget.value))}>{Array.from({ length: info.dims }, (_, k) => <option key={k} value={String(k)}>{nameOf(info, k)}</option>)}</select></label>;
  return <label>{label} <input type="number" min={0} max={info.dims - 1} value={dim} onChange={e => { const v = e.currentTarget.valueAsNumber; if (v >= 0 && v < info.dims) set(Math.round(v)); }} /></label>;
}

function Tools({ info }: { info: Info }) {
  const shown = som.shown.value;
  const choose = (what: string): void => som.show(what === "plane" ? { what, dim: 0 } : what === "rgb" ? { what, dims: [0, 1, 2] } : what === "all" ? { what, from: 0 } : { what: what as "heights" | "hits" | "units" });
  return <span class="tools">
    {som.maps.value.length > 1 && <label>of <select class="library" value={String(som.which.value)} onChange={e => som.choose(Number(e.currentTarget.value))}>{som.maps.value.map((m, k) => <option key={k} value={String(k)}>{m}</option>)}</select></label>}
    <label>shows <select value={shown.what} onChange={e => choose(e.currentTarget.value)}><option value="heights">U-matrix</option><option value="hits">hits</option>{info.units.length > 0 && <option value="units">units</option>}<option value="plane">a component</option><option value="all">U-matrix and components</option>{info.dims >= 3 && <option value="rgb">three as red, green, blue</option>}</select></label>
    {shown.what === "plane" && <Which info={info} dim={shown.dim} label="component" set={dim => som.show({ what: "plane", dim })} />}
    {shown.what === "all" && info.dims > MOST_SIDE_BY_SIDE && <Which info={info} dim={shown.from} label="from" set={from => som.show({ what: "all", from })} />}
    {info.layers > 1 && shown.what !== "all" && <label><input type="checkbox" checked={som.turn3d.value !== null} onChange={e => som.stand(e.currentTarget.checked)} /> in 3-D</label>}
    {shown.what === "rgb" && shown.dims.map((dim, k) => <Which key={k} info={info} dim={dim} label={["red", "green", "blue"][k]!} set={d => som.show({ what: "rgb", dims: shown.dims.map((o, i) => i === k ? d : o) as [number, number, number] })} />)}
  </span>;
}

function Stages({ info }: { info: Info }) {
  const at = som.stage.value, stage = info.stages[at], last = info.stages.length - 1, of = info.training;
  return <div class="row stages">
    <button class="icon" aria-label="Stage before" title="," disabled={at <= 0} onClick={() => som.goTo(at - 1)}>◀</button>
    <input type="range" aria-label="Stage of training" min={0} max={Math.max(0, last)} value={at} disabled={last < 1} onInput={e => som.goTo(e.currentTarget.valueAsNumber)} aria-valuetext={stage ? `after ${digits(stage.epochs)} epochs` : "none"} />
    <button class="icon" aria-label="Next stage" title="." disabled={at >= last} onClick={() => som.goTo(at + 1)}>▶</button>
    <span>{stageWords(info, stage)}</span>
    {of && <span role="status">trained: {digits(of[0])} of {digits(of[1])} epochs{som.following.value ? "" : <> <button class="link" onClick={() => som.goTo(last)}>follow it</button></>}</span>}
    {info.left_out > 0 && <span class="dim">{whole(info.stages.length)} of {whole(info.stages.length + info.left_out)} stages are kept</span>}
  </div>;
}

function Errors({ info }: { info: Info }) {
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value; void som.stage.value;
    const all = info.errors, last = Math.max(1, info.training?.[1] ?? 0, ...all.slice(-1).map(e => e[0])), x = (e: number) => 6 + e / last * (w - 12), low = h - 16, y = (s: number) => low - 4 - s * (low - 22);
    g.font = font(11); g.textBaseline = "top"; g.lineWidth = 1.8;
    [[1, colours.x.css, [], "quantisation", "left"], [2, colours.y.css, [5, 4], "topographic", "right"]].forEach(([k, ink, dash, name, side]) => {
      const points = all.flatMap(e => e[k as 1 | 2] === null ? [] : [[e[0], e[k as 1 | 2]!] as const]), ends: [number, number] = [0, range(points.map(p => p[1]))[1] || 1];
      g.strokeStyle = g.fillStyle = ink as string; g.setLineDash(dash as number[]);
      g.beginPath(); points.forEach(([e, v], i) => i === 0 ? g.moveTo(x(e), y(share(v, ends))) : g.lineTo(x(e), y(share(v, ends)))); g.stroke();
      g.setLineDash([]);
      if (points.length < 12) for (const [e, v] of points) g.fillRect(x(e) - 2, y(share(v, ends)) - 2, 4, 4);
      g.textAlign = side as CanvasTextAlign;
      g.fillText(`${name}${side === "right" ? " ┄" : " ─"} 0 to ${digits(ends[1], 3)}`, side === "left" ? 4 : w - 4, 2);
    });
    g.fillStyle = colours.dim.css; g.strokeStyle = colours.line.css; g.lineWidth = 1; g.textAlign = "center"; g.textBaseline = "bottom";
    g.beginPath(); g.moveTo(0, low + 0.5); g.lineTo(w, low + 0.5); g.stroke();
    for (const t of ticks(0, last, w / 70)) g.fillText(String(Number(t.toPrecision(6))), Math.min(w - 12, Math.max(6, x(t))), h);
    const at = info.stages[som.stage.value]?.epochs;
    if (at !== undefined) { g.strokeStyle = colours.bad.css; g.beginPath(); g.moveTo(x(at), 16); g.lineTo(x(at), low); g.stroke(); }
  };
  const end = info.errors.at(-1), topographic = info.errors.findLast(e => e[2] !== null);
  if (!end) return <p class="dim">This file does not contain them.</p>;
  return <><Plane class="curve" draw={draw} label="Quantisation and topographic error by epoch" />
    <p class="legend">quantisation {digits(info.errors.findLast(e => e[1] !== null)?.[1])}, topographic {digits(topographic?.[2])}{topographic ? ` after ${digits(topographic[0])} epochs` : ""}{info.error_samples > 0 ? `; ${info.hit_samples < info.samples ? "both" : "the latter"} on ${whole(info.error_samples)} of ${plural(info.samples, "sample")}` : ""}</p></>;
}

const css = (values: ArrayLike<number>): string => `rgb(${[0, 1, 2].map(k => Math.round(255 * Math.min(1, Math.max(0, values[k]!)))).join(" ")})`;
/** Samples of a node: as colours or curves if their values are here, and as rows. */
function Samples({ info }: { info: Info }) {
  const held = som.samples.value;
  if (!info.assigned) return <p class="dim">The samples of this node are not known: <code>betz som</code> writes them at the end of a training.</p>;
  if (!held) return null;
  const shownValues = held.values.length / info.dims, sample = (k: number): Float32Array => held.values.subarray(k * info.dims, (k + 1) * info.dims);
  const colour = info.dims === 3 && held.values.every(v => v >= 0 && v <= 1);
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const now = som.samples.value, node = som.weights.value?.values;
    if (!now) return;
    const ends = range(now.values), x = (k: number) => 6 + k / Math.max(1, info.dims - 1) * (w - 12), y = (v: number) => h - 6 - share(v, ends) * (h - 24);
    const line = (values: ArrayLike<number>): void => { g.beginPath(); for (let k = 0; k < info.dims; k++) if (k === 0) g.moveTo(x(k), y(values[k]!)); else g.lineTo(x(k), y(values[k]!)); g.stroke(); };
    g.strokeStyle = colours.x.css; g.lineWidth = 1; g.globalAlpha = 0.4;
    for (let k = 0; k < now.values.length / info.dims; k++) line(now.values.subarray(k * info.dims, (k + 1) * info.dims));
    g.globalAlpha = 1;
    if (node) { g.strokeStyle = colours.bad.css; g.lineWidth = 2; line(node); }
    g.fillStyle = colours.dim.css; g.font = font(10); g.textAlign = "right"; g.textBaseline = "top"; g.fillText(`${digits(ends[0], 3)} to ${digits(ends[1], 3)}`, w - 4, 2); g.textAlign = "left";
  };
  return <section class={held.total > 0 ? "samples" : ""} aria-label="Samples of the node"><h3>{plural(held.total, "sample")}{held.rows.length < held.total ? `, the ${whole(held.rows.length)} nearest here` : ""}</h3>
    {held.total > 0 && !info.sample_values && <p class="dim">Their values are not here: the data are no longer where they were for the training.</p>}
    {shownValues > 0 && colour && <p class="swatches" role="img" aria-label={`Colours of ${plural(shownValues, "sample")}`}>{Array.from({ length: shownValues }, (_, k) => <i key={k} style={{ background: css(sample(k)) }} />)}</p>}
    {shownValues > 0 && !colour && info.dims > 1 && <Plane class="curve" draw={draw} label={`The ${plural(shownValues, "sample")} nearest to the node, and its weights`} />}
    {held.total > 0 && <div class="rows" tabIndex={0} role="region" aria-label="Samples of the node, nearest first"><table><thead><tr><th scope="col">sample</th><th scope="col">distance</th></tr></thead>
      <tbody>{[...held.rows].map((row, k) => <tr key={k}><th scope="row">{whole(row)}</th><td>{digits(held.distances[k])}</td></tr>)}</tbody></table></div>}
  </section>;
}

function Node({ info }: { info: Info }) {
  const at = som.cell.value, now = som.surface.value, held = som.weights.value;
  const draw = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    const values = som.weights.value?.values;
    if (values) drawCourse(g, w, h, values, colours.x.css);
  };
  if (at === null) return <p class="dim">Pick a node to see its weights and hits here. Arrow keys go to the next node.</p>;
  const unit = now && now.units.length > 0 ? now.units[at]! : NO_UNIT, u = info.units[unit], channel = u ? state.server.value?.source.channel_names.indexOf(u.name) ?? -1 : -1;
  const line = Math.floor(at / info.columns), high = info.rows / info.layers;
  const facts: [string, string][] = [...(info.layers > 1 ? [["layer", String(Math.floor(line / high) + 1)] as [string, string]] : []), ["row, column", `${line % high + 1}, ${at % info.columns + 1}`], ["height", digits(now?.heights[at])], ...(now && now.hits.length > 0 ? [["hits", whole(now.hits[at]!)] as [string, string]] : []), ...(info.units.length > 0 ? [["unit", u ? `${u.name}: ${plural(u.spikes, "spike")}, ${digits(u.rate_hz, 3)} Hz` : "none"] as [string, string]] : [])];
  return <><dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    {u && channel >= 0 && <p><button class="act" onClick={() => state.go({ view: "live", channel })}>its spikes</button></p>}
    {u && u.waveform.length > 1 && <Plane class="curve" label={`Mean waveform of unit ${u.name}, in microvolts`} draw={(g, w, h) => { void painted.value; drawCourse(g, w, h, u.waveform, unitCss(unit)); g.fillStyle = colours.dim.css; g.fillText("mean waveform, µV", 4, 2); }} />}
    {held && info.dims > 1 && <Plane class="curve" draw={draw} label="Weights of the node" />}
    {held && <div class="rows" tabIndex={0} role="region" aria-label="Weights of the node"><table><thead><tr><th scope="col">weight</th><th scope="col">value</th></tr></thead>
      <tbody>{[...held.values.subarray(0, 500)].map((v, k) => <tr key={k} onClick={() => som.show({ what: "plane", dim: k })}><th scope="row"><button class="link" onClick={e => { e.stopPropagation(); som.show({ what: "plane", dim: k }); }}>{nameOf(info, k)}</button></th><td>{digits(v)}</td></tr>)}</tbody></table>
      {info.dims > 500 && <p class="dim">the first 500 of {whole(info.dims)}</p>}</div>}
    <Samples info={info} /></>;
}

/** Pixels of a picture to take along. */
const WIDE = 1100, HIGH = 900;
/** The map as it is shown: as a picture drawn anew, and its nodes as a table. */
const takes: [string, () => void | Promise<void>][] = [
  ...[1, 2, 4].map((times): [string, () => Promise<void>] => [times === 1 ? "PNG" : `PNG × ${times}`, async () => {
    const info = som.info.value, canvas = document.createElement("canvas"), g = canvas.getContext("2d")!;
    if (!info) throw new Error("There is no map here.");
    canvas.width = WIDE * times; canvas.height = HIGH * times;
    g.scale(times, times);
    g.fillStyle = colours.panel.css; g.fillRect(0, 0, WIDE, HIGH);
    paintField(g, WIDE, HIGH, info);
    const blob = await new Promise<Blob | null>(done => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the browser made no picture");
    save(blob, "betz-map.png");
  }]),
  ["nodes, CSV", () => {
    const info = som.info.value, now = som.surface.value, stage = info?.stages[som.stage.value], shown = som.shown.value, planes = som.planes.value;
    if (!info || !now) throw new Error("There is no map here.");
    const nodes = info.rows * info.columns, dims = shown.what === "plane" ? [shown.dim] : shown.what === "rgb" ? shown.dims : [], held = planes?.of === `${info.id}/${stage?.number} ${dims.join()}` ? dims : [];
    save(new Blob([table({ ...origin(), map: info.name, epochs: String(stage?.epochs ?? "") }, ["row", "column", "height", "hits", "unit", ...held.map(d => nameOf(info, d))],
      Array.from({ length: nodes }, (_, n) => [Math.floor(n / info.columns) + 1, n % info.columns + 1, now.heights[n], now.hits[n], info.units[now.units[n] ?? NO_UNIT]?.name, ...held.map((_, k) => planes!.values[k * nodes + n])]))], { type: "text/csv" }), "betz-map.csv");
  }],
];

export function SelfMap() {
  useEffect(() => {
    som.begin();
    state.offers.value = { words: "The map as shown: every node with its numbers.", take: takes };
    return () => { som.leave(); state.offers.value = null; };
  }, []);
  const info = som.info.value;
  Object.assign(globalThis, { betzMap: som });
  if (!info) return <main class="networks"><div class="waiting" role="status">
    <p class="large">There is no map here.</p>
    {som.failure.value && <p role="alert" class="bad">{som.failure.value}</p>}
    <p>Maps are trained with <code>betz som DATA --out MAP.npz</code>, watched with <code>--live</code>, and shown with <code>betz serve MAP.npz</code>, as are those of a sorter.</p></div></main>;
  return <main class="som">
    <Panel area="som-field" title="Map" note={`${info.layers > 1 ? `${plural(info.layers, "layer")} of ` : ""}${whole(info.rows / info.layers)} × ${whole(info.columns)} ${info.hexagonal ? "hexagons" : "squares"}${info.torus ? ", a torus" : ""}, ${whole(info.dims)} weights each${info.samples > 0 ? `, for ${plural(info.samples, "sample")}` : ""}${info.hit_samples > 0 && info.hit_samples < info.samples && som.shown.value.what === "hits" ? `; hits of ${whole(info.hit_samples)} of them` : ""}`} tools={<Tools info={info} />}>
      <Field />
      {som.failure.value && <p role="alert" class="bad">{som.failure.value}</p>}
      {som.shown.value.what === "hits" && som.surface.value?.hits.length === 0 && <p class="dim">This stage has no hits.</p>}
      <Stages info={info} /></Panel>
    <Panel area="som-errors" title="Errors by epoch" note=""><Errors info={info} /></Panel>
    <Panel area="som-node" title="Node" note=""><Node info={info} /></Panel>
  </main>;
}
