// Exports of the networks view.
import { csv, graphml, prefix } from "./model.ts";
import { safe } from "../draw/escape.ts";
import { sessionCss } from "./ink.ts";
import * as net from "./state.ts";
import * as state from "../state.ts";
import { here } from "../url.ts";
import { save } from "../panels/Export.tsx";
import { part } from "../panels/net/Graph.tsx";
import { colours, inLight } from "../theme.ts";
import { png } from "../draw/export.ts";

/** Two columns of a journal, in millimetres. */
const PAPER_MM = 180;
const MOST_LINES = 20_000, WIDTH = 1100, HEIGHT = 820;

/** Nodes and edges as they are shown, all vectors, in light colours; of more than 20,000 edges the strongest, said below. */
export const svg = (): string => inLight(drawing);

function drawing(): string {
  const box = part.value ?? [0, 0, 1, 1], scale = Math.min((WIDTH - 40) / (box[2] - box[0]), (HEIGHT - 80) / (box[3] - box[1])), parts: string[] = [];
  let cut = "";
  net.loaded.value.forEach((l, s) => {
    const e = net.edgesOf(l), places = net.placesOf(l), inside = net.region.value;
    if (!e) return;
    const x = (n: number) => 20 + (places[2 * n]! - box[0]) * scale, y = (n: number) => 50 + (places[2 * n + 1]! - box[1]) * scale, all = prefix(e.key, net.threshold.value), n = Math.min(all, MOST_LINES);
    if (n < all) cut = `, the ${n} strongest of ${all} edges`;
    const low = net.threshold.value, high = e.key[0] ?? 1;
    for (let k = n - 1; k >= 0; k--) {
      const a = e.i[k]!, b = e.j[k]!, t = Math.min(1, (e.key[k]! - low) / Math.max(1e-9, high - low));
      if (inside && !(inside[a] && inside[b])) continue;
      parts.push(`<path d="M${x(a).toFixed(1)} ${y(a).toFixed(1)}L${x(b).toFixed(1)} ${y(b).toFixed(1)}" stroke="${sessionCss(s)}" stroke-width="${(0.5 + 2.4 * t).toFixed(2)}" opacity="${(0.15 + 0.75 * t).toFixed(2)}"/>`);
    }
    if (s === 0) for (let k = 0; k < l.info.nodes; k++) if (!inside || inside[k]) parts.push(`<circle cx="${x(k).toFixed(1)}" cy="${y(k).toFixed(1)}" r="2.5" fill="${colours.ink.css}"><title>${safe(l.info.names?.[k] ?? String(k))}</title></circle>`);
  });
  // The legend: each session's colour, and how wide its weakest and strongest edges are.
  const legend = net.loaded.value.map((l, s) => {
    const e = net.edgesOf(l), y = HEIGHT - 30 - 16 * (net.loaded.value.length - 1 - s), ink = sessionCss(s), line = (x: number, wide: number, opacity: number): string => `<path d="M${x} ${y - 4}h28" stroke="${ink}" stroke-width="${wide}" opacity="${opacity}"/>`;
    return `${line(20, 0.5, 0.5)}<text x="54" y="${y}" fill="${colours.dim.css}">${net.shown(l, net.threshold.value).toFixed(3)}</text>${line(104, 2.9, 0.9)}<text x="138" y="${y}" fill="${colours.dim.css}">${(e?.key[0] === undefined ? net.threshold.value : net.shown(l, e.key[0])).toFixed(3)}  ${safe(l.info.measure)}, ${safe(l.info.name)}</text>`;
  }).join("");
  const words = `${net.loaded.value.map(l => l.info.name).join(", ")} · from ${net.shown(net.first.value, net.threshold.value).toFixed(3)} on${cut}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${PAPER_MM}mm" height="${(HEIGHT * PAPER_MM / WIDTH).toFixed(1)}mm" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui,DejaVu Sans,sans-serif" font-size="12"><rect width="${WIDTH}" height="${HEIGHT}" fill="${colours.panel.css}"/>`
    + `<text x="20" y="28" fill="${colours.ink.css}" font-size="15">${safe(words)}</text>${parts.join("")}${legend}<text x="20" y="${HEIGHT - 10}" fill="${colours.dim.css}" font-size="9">${safe(here())} · betz ${safe(state.server.value?.version ?? "")}</text></svg>\n`;
}

export function offer(): void {
  const table = (): string => csv(net.loaded.value.flatMap(l => { const edges = net.edgesOf(l); return edges ? [{ name: l.info.name, info: l.info, edges, n: prefix(edges.key, net.threshold.value) }] : []; }),
    [`# networks: ${net.loaded.value.map(l => l.info.name).join(", ")}`, `# threshold: ${net.shown(net.first.value, net.threshold.value)}`, `# address: ${here()}`, `# betz ${state.server.value?.version ?? ""}`].join("\n") + "\n");
  state.offers.value = {
    words: "The networks shown: edges that reach the threshold in the chosen window.",
    take: [
      ["PNG", async () => save(await png(svg(), 1), "betz-network.png")], ["PNG × 2", async () => save(await png(svg(), 2), "betz-network.png")],
      ["SVG", () => save(new Blob([svg()], { type: "image/svg+xml" }), "betz-network.svg")], ["GraphML", () => { for (const l of net.loaded.value) { const e = net.edgesOf(l); if (e) save(new Blob([graphml(l.info, e, prefix(e.key, net.threshold.value))], { type: "application/graphml+xml" }), `betz-network-${l.info.id}.graphml`); } }], ["edges, CSV", () => save(new Blob([table()], { type: "text/csv" }), "betz-network.csv")],
    ],
  };
}
