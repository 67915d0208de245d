// The node that is picked: all its edges with their values and where they lead; a row of the matrix.
import { useState } from "preact/hooks";
import { NONE, linksOf, prefix } from "../../net/model.ts";
import * as net from "../../net/state.ts";
import { communityInk, css, sessionCss } from "../../net/ink.ts";
import { viridis } from "../../draw/colour.ts";
import { painted } from "../../theme.ts";
import { Plane } from "../Canvas.tsx";

const MOST_ROWS = 400;
const digits = (r: number): string => Number.isNaN(r) ? "–" : r.toFixed(4);
type By = "r" | "node" | "far";

export function Node() {
  const l = net.first.value, n = net.node.value, [by, setBy] = useState<By>("r"), [find, setFind] = useState(""), [wrong, setWrong] = useState("");
  if (!l) return null;
  const e = net.edgesOf(l), named = (k: number): string => l.info.names?.[k] ?? String(k), place = (k: number): number[] | null => l.info.positions?.[k] ?? null;
  const look = (event: Event): void => {
    event.preventDefault();
    const at = l.info.names?.indexOf(find.trim()) ?? -1, number = at >= 0 ? at : /^\d+$/.test(find.trim()) ? Number(find) : -1;
    if (number < 0 || number >= l.info.nodes) { setWrong(`expected one of ${l.info.nodes} nodes`); return; }
    setWrong("");
    net.say({ node: String(number) });
  };
  const form = <form class="row" onSubmit={look}><label>node <input type="search" value={find} onInput={i => setFind(i.currentTarget.value)} placeholder={named(0)} /></label><button class="act">find</button>{wrong && <span role="alert" class="bad">{wrong}</span>}</form>;
  if (n === null || !e) return <div class="node">{form}<p class="dim">Pick a node with the mouse or by its name to see its edges.</p></div>;
  const reach = prefix(e.key, net.threshold.value), links = linksOf(e, reach, n, net.region.value), own = place(n), community = net.communitiesOf(l)?.[n];
  // Of the other sessions with the same nodes: what they say of the same pairs.
  const others = net.loaded.value.flatMap((one, s) => { const e = s > 0 && one.info.nodes === l.info.nodes ? net.edgesOf(one) : null; return e ? [{ s, name: one.info.name, r: new globalThis.Map(linksOf(e, prefix(e.key, net.threshold.value), n, net.region.value).map(k => [k.node, k.r])) }] : []; });
  const degree = [links.length, ...others.map(o => o.r.size)].join(" / "), listed = new Set(links.map(k => k.node));
  for (const o of others) for (const k of o.r.keys()) if (!listed.has(k)) { listed.add(k); links.push({ node: k, r: NaN }); }
  const far = (k: number): number => { const p = place(k); return own && p ? Math.hypot(...p.map((v, a) => v - own[a]!)) : NaN; };
  links.sort((a, b) => by === "node" ? a.node - b.node : by === "far" ? far(a.node) - far(b.node) || a.node - b.node : (Math.abs(b.r) || 0) - (Math.abs(a.r) || 0));
  const head = (key: By, words: string) => <th scope="col" aria-sort={by === key ? key === "r" ? "descending" : "ascending" : "none"}><button onClick={() => setBy(key)}>{words}{by === key ? " ▾" : ""}</button></th>;
  const row = (g: CanvasRenderingContext2D, w: number, h: number): void => {
    void painted.value;
    for (const { node, r } of links) if (r === r) { g.fillStyle = viridis(Math.abs(r)); g.fillRect(node / l.info.nodes * w, 0, Math.max(1.5, w / l.info.nodes), h); }
  };
  return <div class="node">
    {form}
    <p><b>{named(n)}</b> · degree {degree}{community !== undefined && community !== NONE ? <> · <span class="swatch" style={{ background: css(communityInk(l.slots.get(community) ?? NONE)) }} /> community {community}</> : ""}
      {own ? <> · at {own.map(v => Number(v.toPrecision(5))).join(", ")}</> : ""}{e.undefined.includes(n) ? " · undefined in this window" : ""}</p>
    <Plane class="matrixrow" draw={row} label="This node's row of the matrix, node 0 on the left" />
    <div class="rows" tabIndex={0} role="region" aria-label="Edges of the node"><table><thead><tr>{head("r", "r")}{others.map(o => <th key={o.s} scope="col" title={o.name}><span class="line" style={{ borderColor: sessionCss(o.s), borderTopStyle: o.s === 2 ? "dotted" : "dashed" }} /> r</th>)}{head("node", "to")}{own && head("far", "distance")}</tr></thead>
      <tbody>{links.slice(0, MOST_ROWS).map(k => <tr key={k.node}><th scope="row">{digits(k.r)}</th>{others.map(o => <td key={o.s}>{digits(o.r.get(k.node) ?? NaN)}</td>)}<td><button class="link" onClick={() => net.say({ node: String(k.node) })}>{named(k.node)}</button></td>{own && <td>{Number.isNaN(far(k.node)) ? "–" : far(k.node).toPrecision(4)}</td>}</tr>)}</tbody></table>
      {links.length > MOST_ROWS && <p class="dim">the first {MOST_ROWS} of {links.length} nodes</p>}</div>
  </div>;
}
