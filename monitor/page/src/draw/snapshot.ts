// One HTML file of a moment: its picture, the session's numbers and what happened, readable without a server.
import { safe } from "./escape.ts";
import type { Facts, Inks } from "./export.ts";

export interface Snapshot {
  facts: [name: string, value: string][];
  alarms: string[];
  /** Time and words of every incident in view. */
  incidents: [time: string, words: string][];
  /** The picture as SVG. */
  picture: string;
}

export function snapshot(of: Snapshot, f: Facts, inks: Inks): string {
  const rows = (all: [string, string][]): string => all.map(([a, b]) => `<tr><th scope="row">${safe(a)}</th><td>${safe(b)}</td></tr>`).join("");
  const happened = of.incidents.length > 0 ? `<h2>Incidents in view</h2><table>${rows(of.incidents)}</table>` : "";
  const raised = of.alarms.length > 0 ? `<p><b>${of.alarms.map(safe).join("<br>")}</b></p>` : "";
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${safe(f.source)}, ${safe(f.saved)}</title>`
    + `<style>body{margin:24px;background:${inks.paper};color:${inks.ink};font:14px/1.5 system-ui,"DejaVu Sans",sans-serif}svg{width:100%;max-width:1100px;height:auto}h1{font-size:18px}h2{font-size:15px}th{text-align:left;font-weight:400;color:${inks.dim};padding-right:2em}</style>`
    + `<h1>${safe(f.source)}</h1>${raised}${of.picture}${happened}<h2>Session</h2><table>${rows(of.facts)}</table></html>\n`;
}
