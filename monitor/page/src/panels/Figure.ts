// The plots of a view as one figure for paper: drawn anew at its width, in light colours, each with its title and legend.
import { SvgCanvas } from "../draw/svg.ts";
import { inLight, colours } from "../theme.ts";
import * as state from "../state.ts";
import { drawings } from "./Canvas.tsx";
import { onStage } from "./Panel.tsx";
import { flow, rowsOf, type Mark } from "./rows.ts";

/** Two columns of a journal; a pixel of the page is 25.4 / 96 mm. */
const PAPER_MM = 180, WIDTH = Math.round(PAPER_MM / 25.4 * 96);
const PAD = 10, LEAST = 90, MOST = 400;
/** Canvases that other exports have: spikes, and graphs of networks. */
const OTHERS = ".raster canvas, canvas.net, canvas.over, canvas.under";

/** Words and lines of an element in the order of reading, without what is pressed or chosen. */
function marksOf(of: Element | null, bold = false): Mark[] {
  if (!of) return [];
  const found: Mark[] = [];
  for (const node of of.childNodes) {
    if (node instanceof Text) {
      const ink = getComputedStyle(node.parentElement!).color;
      for (const words of (node.textContent ?? "").split(/\s+/)) if (words) found.push({ words, bold, ink });
    } else if (node instanceof Element) {
      if (node.matches("button, label, select, input, .tools, .read, .sr")) continue;
      if (node.matches(".key, .swatch, i")) {
        const style = getComputedStyle(node), bar = node.matches(".bar, .swatch, i");
        found.push({ ink: bar ? style.backgroundColor : style.borderTopColor, dash: bar ? "bar" : style.borderTopStyle });
      } else found.push(...marksOf(node, bold || node.matches("b, h2, dd")));
    }
  }
  return found;
}

/** Everything that says what a plot is: the caption of its figure, or the label of its line. */
const captionOf = (canvas: HTMLCanvasElement): Mark[] => marksOf(canvas.closest("figure")?.querySelector("figcaption") ?? canvas.closest(".line")?.querySelector(".label") ?? null);

/** The figure as SVG. `title`: its first line; `foot`: where it is from.
 * @throws if the view has no plot. */
export function viewFigure(title: string, foot: string): string {
  const figure = inLight(() => {
    const of = document.createElement("canvas").getContext("2d")!, measure = (text: string, how: string): number => { of.font = how; return of.measureText(text).width; };
    const panels = [...document.querySelectorAll<HTMLElement>("main .panel")].map(panel => ({ panel, canvases: [...panel.querySelectorAll("canvas")].filter(c => c.clientWidth > 2 && c.clientHeight > 2 && !c.matches(OTHERS)) })).filter(p => p.canvases.length > 0);
    if (panels.length === 0) throw new Error("This view has no plot: export its tables.");
    const parts: string[] = [], staged = new Map<HTMLCanvasElement, { g: SvgCanvas; w: number; h: number; x: number; y: number }>();
    let y = PAD;
    const put = (marks: Mark[], x: number, width: number, size?: number): number => { const { markup, height } = flow(marks, x, y, { width, measure }, size); parts.push(markup); return height; };
    y += put(title.split(" ").map(words => ({ words, bold: true, ink: colours.ink.css })), PAD, WIDTH - 2 * PAD, 13) + 4;
    for (const { panel, canvases } of panels) {
      y += put([...marksOf(panel.querySelector("header h2"), true), ...marksOf(panel.querySelector("header .note"))], PAD, WIDTH - 2 * PAD) + 2;
      const boxes = canvases.map(c => c.getBoundingClientRect());
      for (const row of rowsOf(boxes)) {
        const gap = 14, room = WIDTH - 2 * PAD - gap * (row.length - 1), all = row.reduce((n, k) => n + boxes[k]!.width, 0);
        let x = PAD, tall = 0, above = 0;
        const placed = row.map(k => { const w = room * boxes[k]!.width / all, at = x; x += w + gap; return { k, w, x: at }; });
        for (const { k, w, x } of placed) above = Math.max(above, put(captionOf(canvases[k]!), x, w, 10));
        y += above;
        for (const { k, w, x } of placed) {
          const h = Math.min(MOST, Math.max(LEAST, w * boxes[k]!.height / boxes[k]!.width));
          tall = Math.max(tall, h);
          staged.set(canvases[k]!, { g: new SvgCanvas(measure), w, h, x, y });
        }
        y += tall + 6;
      }
      for (const below of panel.querySelectorAll(":scope > .legend, :scope > .quantiles, :scope > .row")) y += put(marksOf(below), PAD, WIDTH - 2 * PAD, 10);
      y += 10;
    }
    onStage(canvas => staged.get(canvas) as never ?? null, () => {
      const s = state.shown.value;
      if (s) for (const paint of state.painters) paint(s);
      for (const draw of drawings) draw();
    });
    for (const { g, w, h, x, y } of staged.values()) parts.push(`<svg x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${w.toFixed(1)}" height="${h.toFixed(1)}">${g.markup}</svg>`);
    y += put(foot.split(" ").map(words => ({ words, bold: false, ink: colours.dim.css })), PAD, WIDTH - 2 * PAD, 9) + PAD;
    const height = Math.ceil(y);
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${PAPER_MM}mm" height="${(height * PAPER_MM / WIDTH).toFixed(1)}mm" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui,DejaVu Sans,sans-serif"><rect width="${WIDTH}" height="${height}" fill="${colours.panel.css}"/>${parts.join("")}</svg>\n`;
  });
  // Drawn again, so that they know their places on the page.
  for (const draw of drawings) draw();
  return figure;
}
