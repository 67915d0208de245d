// Networks over windows: their graphs and matrices, edges over time, communities, sessions against each other.
import { useComputed } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Layer, Nodes } from "../draw/graph.ts";
import type { Rgb } from "../draw/gl.ts";
import { strongest, NONE, difference, prefix } from "../net/model.ts";
import { DASHES, communityInk, recoloured, sessionCss, sessionInk } from "../net/ink.ts";
import { offer } from "../net/take.ts";
import * as net from "../net/state.ts";
import { Panel } from "../panels/Panel.tsx";
import { Graph, shownView, spent, zoomBy, part, type Shape } from "../panels/net/Graph.tsx";
import { Map as Minimap } from "../panels/net/Map.tsx";
import { Growth } from "../panels/net/Growth.tsx";
import { KeptRow, Reset } from "../panels/net/Kept.tsx";
import { Matrix } from "../panels/net/Matrix.tsx";
import { Node } from "../panels/net/Node.tsx";
import { Threshold } from "../panels/net/Threshold.tsx";
import { Time } from "../panels/net/Time.tsx";
import { plural, whole } from "../draw/format.ts";
import { ramp } from "../draw/colour.ts";
import { colours, painted } from "../theme.ts";
import * as state from "../state.ts";

/** A colour as four bytes of a picture, in the order that memory has them. */
const word = (c: Rgb, alpha: number): number => (alpha << 24 | Math.round(c[2] * 255) << 16 | Math.round(c[1] * 255) << 8 | Math.round(c[0] * 255)) >>> 0;

/** Nodes of a session as they are drawn. */
function nodesOf(l: net.Loaded, places: Float32Array, degree: Uint32Array): Nodes {
  const n = l.info.nodes, ink = new Uint32Array(n), size = sizesOf(n), inside = net.region.value, communities = net.communitiesOf(l), how = net.overlay.value;
  const linked = word(colours.ink.rgb, 255), alone = word(colours.dim.rgb, 110);
  if (how === "degree") {
    let most = 1;
    for (const d of degree) most = Math.max(most, d);
    const own = size.slice(), inks = ramp().map(c => c.map(v => v / 255) as Rgb);
    for (let k = 0; k < n; k++) {
      const share = degree[k]! / most;
      ink[k] = word(inks[Math.round(share * 255)]!, degree[k]! > 0 ? 255 : 110);
      own[k]! *= 0.7 + 1.6 * Math.sqrt(share);
    }
    return { places, ink: hidden(ink, inside), size: own };
  }
  const by = how === "communities" && communities ? new globalThis.Map<number, Rgb>() : null;
  for (let k = 0; k < n; k++) {
    if (!by) { ink[k] = degree[k]! > 0 ? linked : alone; continue; }
    const slot = l.slots.get(communities![k]!) ?? NONE;
    let c = by.get(slot);
    if (!c) by.set(slot, c = communityInk(slot));
    ink[k] = word(c, degree[k]! > 0 ? 255 : 110);
  }
  return { places, ink: hidden(ink, inside), size };
}
/** What is not in the region has no alpha, and is not drawn. */
function hidden(ink: Uint32Array, inside: Uint8Array | null): Uint8Array {
  if (inside) for (let k = 0; k < ink.length; k++) if (!inside[k]) ink[k] = 0;
  return new Uint8Array(ink.buffer);
}
/** The same array for the same number: what has not changed is not put into a buffer again. */
let sizes = new Float32Array(0);
const sizesOf = (n: number): Float32Array => sizes.length === n ? sizes : sizes = new Float32Array(n).fill(n > 5000 ? 1.6 : n > 800 ? 2.4 : 3.4);

/** Beyond so many edges dashes are but noise: the curves over time keep theirs. */
const MOST_DASHED = 500;
const layer = (l: net.Loaded, s: number, from = net.threshold.value): Layer | null => {
  const edges = net.edgesOf(l);
  if (!edges) return null;
  const alone = net.loaded.value.length === 1, n = prefix(edges.key, from);
  return { edges, n, ink: alone ? colours.dim.rgb : sessionInk(s), dash: net.compare.value === "over" && net.loaded.value.length > 1 && n <= MOST_DASHED ? DASHES[s] ?? 0 : 0, lowest: Math.min(from, net.threshold.value), highest: strongest(net.loaded.value.map(x => net.edgesOf(x)?.key)) };
};

function Graphs() {
  const all = net.loaded.value;
  // What is drawn is made once for each change of what it is made of.
  const shapes = useComputed((): (Shape & { title: string })[] => {
    void painted.value;
    const shown = net.loaded.value, made: (Shape & { title: string })[] = [], head = shown[0];
    if (!head) return made;
    const apart = net.compare.value === "side" && shown.length > 1;
    if (net.compare.value === "diff" && shown.length > 1) {
      const [a, b] = [shown[0]!, shown[1]!], ea = net.edgesOf(a), eb = net.edgesOf(b);
      if (!ea || !eb || a.info.nodes !== b.info.nodes) return made;
      const parts = difference(ea, prefix(ea.key, net.threshold.value), eb, prefix(eb.key, net.threshold.value), a.info.nodes), degree = new Uint32Array(a.info.nodes);
      for (const e of parts) for (let k = 0; k < e.i.length; k++) { degree[e.i[k]!]!++; degree[e.j[k]!]!++; }
      const inks: [Rgb, number][] = [[sessionInk(0), 0], [colours.dim.rgb, 0], [sessionInk(1), 6]], places = net.placesOf(a);
      made.push({ places, nodes: nodesOf(a, places, degree), head: true, counts: n => degree[n]! > 0, label: `${a.info.name} and ${b.info.name}: ${parts.map(p => p.i.length).join(", ")} edges of the one, of both, of the other`, title: "",
        layers: [1, 0, 2].map(k => ({ edges: parts[k]!, n: parts[k]!.i.length, ink: inks[k]![0], dash: inks[k]![1], lowest: net.threshold.value, highest: ea.key[0] ?? 1 })) });
      return made;
    }
    if (net.compare.value === "two") {
      for (const from of [net.threshold.value, net.second.value]) {
        const one = layer(head, 0, from), places = net.placesOf(head), degree = net.degreesOf(head, from), said = `from ${net.shown(head, from).toFixed(3)}: ${plural(one?.n ?? 0, "edge")}`;
        if (one) made.push({ places, nodes: nodesOf(head, places, degree), layers: [one], head: made.length === 0, counts: n => degree[n]! > 0, title: said, label: `Network of ${head.info.name} ${said}` });
      }
      return made;
    }
    shown.forEach((l, s) => {
      const one = layer(l, s);
      if (!one) return;
      // Laid over each other where they have the same nodes; else each for itself.
      const over = made[0] && !apart && l.info.nodes === head.info.nodes;
      if (over) { made[0]!.layers.push(one); return; }
      const places = net.placesOf(l), degree = net.degreesOf(l);
      made.push({ places, nodes: nodesOf(l, places, degree), layers: [one], head: made.length === 0, counts: n => degree[n]! > 0, title: apart || made.length > 0 ? l.info.name : "",
        label: `Network of ${l.info.name}: ${plural(one.n, "edge")} among ${plural(l.info.nodes, "node")}; the panels beside it say the same in numbers` });
    });
    return made;
  });
  if (net.tab.value === "matrix") return <div class="graphs">{all.map(l => <Matrix key={l.info.id} l={l} />)}</div>;
  return <div class="graphs">{shapes.value.map((s, k) => <Graph key={k} k={k} all={() => shapes.value} title={s.title} />)}</div>;
}

function Sessions() {
  const chosen = net.loaded.value.map(l => l.info.id);
  const turn = (id: number): void => { const next = chosen.includes(id) ? chosen.filter(c => c !== id) : [...chosen, id].slice(-4); net.say({ n: next.length > 0 ? next.join(",") : "none" }); };
  return <fieldset class="sessions"><legend>sessions, up to four</legend>
    {net.offered.value.map(o => { const s = chosen.indexOf(o.id); return <div key={o.id}><label><input type="checkbox" checked={s >= 0} onChange={() => turn(o.id)} />
      <span class={`line ink${s}`} style={{ borderColor: s >= 0 ? sessionCss(s) : "transparent", borderTopStyle: s > 0 ? s === 2 ? "dotted" : "dashed" : "solid" }} /><span>{o.name}</span></label>{s >= 0 && <button class="link" title="Another colour" aria-label={`Another colour for ${o.name}`} onClick={() => net.say({ ink: recoloured(s) })}>◑</button>}<KeptRow o={o} /></div>; })}
    {chosen.length > 0 && <button class="link" onClick={net.unload}>unload all</button>}<Reset /></fieldset>;
}

/** Measures of spike counts; those of distance have edges that are at most a value. */
const MEASURES = ["pearson", "spearman", "kendall", "covariance", "gaussian-information", "lagged", "partial", "euclidean", "dtw", "coherence"];

/** A network of a recording, in windows of one's own. */
function Compute() {
  const live = state.server.value?.mode === "live", sources = live ? ["the last minute"] : state.server.value?.sources ?? [], [source, setSource] = useState(0), [window, setWindow] = useState(10), [step, setStep] = useState(5), [bin, setBin] = useState(0.05), [least, setLeast] = useState(0.1), [measure, setMeasure] = useState("pearson"), [shift, setShift] = useState(0.5);
  const shifts = measure === "lagged" || measure === "dtw", distance = measure === "euclidean" || measure === "dtw";
  if (sources.length === 0) return null;
  const field = (name: string, value: number, set: (v: number) => void, by: number) => <label>{name} <input type="number" min={0} step={by} value={value} onChange={e => set(Number(e.currentTarget.value))} /></label>;
  return <details class="compute"><summary>{live ? "compute from the session" : "compute from a recording"}</summary>
    <form onSubmit={e => { e.preventDefault(); void net.compute(source, window, step, bin, measure, shifts ? shift : 0, least); }}>
      <label>of <select value={String(source)} onChange={e => setSource(Number(e.currentTarget.value))}>{sources.map((s, k) => <option key={k} value={String(k)}>{s}</option>)}</select></label>
      <label>measure <select value={measure} onChange={e => setMeasure(e.currentTarget.value)}>{MEASURES.map(m => <option key={m}>{m}</option>)}</select></label>
      {field("window, s", window, setWindow, 0.5)}{field("step, s", step, setStep, 0.5)}{field("bin, s", bin, setBin, 0.01)}{shifts && field("largest shift, s", shift, setShift, 0.05)}{field(distance ? "largest distance" : "least size", least, setLeast, 0.05)}
      <button class="act">compute</button></form></details>;
}

function Region() {
  const [text, setText] = useState(""), [wrong, setWrong] = useState(false), mask = net.region.value;
  const inside = mask ? mask.reduce((a, b) => a + b, 0) : 0;
  return <form class="region" onSubmit={e => { e.preventDefault(); setWrong(!net.regionOf(text)); }}>
    <label>region <input type="search" value={text} placeholder="0-15, 20" onInput={e => setText(e.currentTarget.value)} /></label>
    <button class="act">show only</button>{mask && <button type="button" class="act" onClick={() => { net.setRegion(null); setText(""); }}>all nodes</button>}
    <p class="dim">{wrong ? "expected names, numbers and ranges such as 3-9" : mask ? `${plural(inside, "node")}; edges to other nodes are hidden` : "or hold Shift and drag around nodes"}</p></form>;
}

export function Networks() {
  useEffect(() => { net.begin(); offer(); return () => { state.offers.value = null; }; }, []);
  void net.moved.value;
  const all = net.loaded.value, l = net.first.value, work = net.work.value;
  Object.assign(globalThis, { betzNet: { net, spent } });
  if (net.offered.value.length === 0 || !l) return <main class="networks"><div class="waiting" role="status">
    <p class="large">{net.offered.value.some(o => o.live) ? "The first window has not come yet." : net.offered.value.length > 0 ? "No network is chosen." : "There is no network here."}</p>
    {net.failure.value && <p role="alert" class="bad">{net.failure.value}</p>}
    <p>Networks are computed with <code>betz network compute</code> and shown with <code>betz serve NETWORK.npz</code>{(state.server.value?.sources.length ?? 0) > 0 || state.server.value?.mode === "live" ? ", or computed here:" : "."}</p>
    {net.offered.value.length > 0 && <Sessions />}<Compute /></div></main>;
  const k = net.windowOf(l), e = net.edgesOf(l), counts = all.map(one => net.counted(one)), total = e?.total ?? 0, held = e?.key.length ?? 0, places: [string, string][] = [...(l.info.positions ? [["place", "at their positions"]] as [string, string][] : []), ["force", "by their edges"], ["circle", "on a circle"]];
  const threeAxes = l.info.positions?.some(p => (p?.length ?? 0) > 2) ?? false, view = (factor: number): void => { const p = part.value; if (p) { const scale = 600 / (p[2] - p[0]); shownView.value = zoomBy(factor, shownView.value ?? { x: p[0], y: p[1], scale }, 300, 300 * (p[3] - p[1]) / (p[2] - p[0])); } };
  const note = [`${counts.map(whole).join(" / ")} edges of ${all.map(one => whole(net.edgesOf(one)?.total ?? 0)).join(" / ")}`, `window ${k + 1} of ${whole(l.info.windows)}`, ...(held < total ? [`the ${whole(held)} strongest are here`] : []), ...(e && e.undefined.length > 0 ? [`${e.undefined.length} nodes undefined`] : []), ...(l.info.complete ? [] : ["stopped before its last window"])].join(" · ");
  return <main class="networks">
    <Panel area="net-left" title="Overview" note=""><Minimap /><Growth /><Sessions /><Region /><Compute /></Panel>
    <Panel area="net-graph" title="Network" note="" tools={<span class="tools">
      <label>as <select value={net.tab.value} onChange={x => net.say({ tab: x.currentTarget.value === "matrix" ? "matrix" : undefined })}><option value="graph">graph</option><option value="matrix">matrix</option></select></label>
      <label>nodes <select value={net.placing.value} onChange={x => { const how = x.currentTarget.value; if (how === "force") void net.arrange(); else net.say({ pl: how }); shownView.value = null; }}>{places.map(([v, w]) => <option key={v} value={v}>{w}</option>)}</select></label>
      {threeAxes && <label>axes <select value={state.address.value.more["ax"] ?? "xy"} onChange={x => net.say({ ax: x.currentTarget.value })}><option>xy</option><option>xz</option><option>yz</option></select></label>}
      <label>colours <select value={net.overlay.value} onChange={x => { const how = x.currentTarget.value; if (how === "communities" && all.some(x => x.communities.size === 0)) void net.findCommunities(); else net.say({ ov: how === "session" ? undefined : how }); }}><option value="session">session</option><option value="communities">communities</option><option value="degree">degree</option></select></label>
      <label>compare <select value={net.compare.value} onChange={x => net.say({ cmp: x.currentTarget.value === "over" ? undefined : x.currentTarget.value })}>
        <option value="over">{all.length < 2 ? "nothing" : all.every(x => x.info.nodes === l.info.nodes) ? "overlaid" : "overlaid if nodes match"}</option>{all.length > 1 && <><option value="side">side by side</option><option value="diff">difference</option></>}<option value="two">two thresholds</option></select></label>
      <button class="icon" aria-label="Larger" onClick={() => view(1.4)}>+</button><button class="icon" aria-label="Smaller" onClick={() => view(0.7)}>−</button><button class="icon" aria-label="All that has edges" title="Double click" onClick={() => { shownView.value = null; }}>⤢</button></span>}>
      <Graphs />
      <p class="said"><span class="dim">{note}</span> {net.compare.value === "diff" && all.length > 1 ? (all[0]!.info.nodes === all[1]!.info.nodes ? <><span class="line" style={{ borderColor: sessionCss(0) }} /> {all[0]!.info.name} alone <span class="line dim" /> both <span class="line dashed" style={{ borderColor: sessionCss(1) }} /> {all[1]!.info.name} alone</> : "A difference needs networks of the same nodes.") : ""}
        {work && <span role="status">{work.what}{work.of > 0 ? ` ${whole(work.done)} of ${whole(work.of)}${net.left(work) !== null ? `, ${net.left(work)} s left` : ""}` : " …"} <button class="link" onClick={() => work.stop.abort()}>stop</button></span>}
        {net.failure.value && <span role="alert" class="bad">{net.failure.value}</span>}</p>
    </Panel>
    <Panel area="net-node" title="Node" note=""><Node /></Panel>
    <Panel area="net-time" title="Edges over time" note={net.overlay.value === "communities" && l.communities.size > 0 ? `below: communities of ${l.info.name}, ${whole(l.events.length)} births, deaths, splits and merges` : ""} tools={<span class="tools">
      <button class="icon" aria-label="Previous window" title="," onClick={() => net.shift(-1)}>◀</button><button class="icon" aria-pressed={net.playing.value} aria-label={net.playing.value ? "Stop" : "Play"} onClick={() => { net.playing.value = !net.playing.value; }}>{net.playing.value ? "❚❚" : "▶"}</button><button class="icon" aria-label="Next window" title="." onClick={() => net.shift(1)}>▶▏</button></span>}><Time /></Panel>
    <Panel area="net-threshold" title="Threshold" note=""><Threshold /></Panel>
  </main>;
}
