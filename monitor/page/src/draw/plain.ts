// The raster without WebGL2: the same cells, copied into a picture at most ten times per second.
import type { Store } from "../link/store.ts";
import { ramp } from "./colour.ts";
import { Cells, type Picture } from "./raster.ts";

const TURN_MS = 100;

export class PlainRaster {
  readonly cells = new Cells();
  private last = -Infinity;
  private drawn: Picture | null = null;

  constructor(readonly canvas: HTMLCanvasElement) {
    if (!canvas.getContext("2d")) throw new Error("no canvas to draw on");
  }

  draw(store: Store, picture: Picture): void {
    const now = performance.now();
    if (now - this.last < TURN_MS) return;
    this.last = now;
    const w = Math.max(16, this.canvas.clientWidth), h = Math.max(16, this.canvas.clientHeight), g = this.canvas.getContext("2d")!;
    const resized = this.canvas.width !== w || this.canvas.height !== h;
    if (resized) { this.canvas.width = w; this.canvas.height = h; }
    const changed = this.cells.update(store, picture, w, h);
    const same = this.drawn && this.drawn.end === picture.end && this.drawn.paper === picture.paper && !resized;
    if (same && changed && changed[1] < changed[0]) return;
    this.drawn = picture;
    const { rows, columns, counts, state } = this.cells, { per, least } = this.cells.ink(), heat = this.cells.heat(), scale = ramp(), image = g.createImageData(w, h), pixels = new Uint32Array(image.data.buffer), stop = this.cells.stop(picture.end);
    // Colour of a count on paper with this tint; the red byte comes first.
    const inks = (tint: number) => Uint32Array.from({ length: 256 }, (_, v) => {
      if (heat && v > 0) { const c = scale[Math.round(255 * heat.of(v * store.unit))]!; return 0xff000000 | c[2] << 16 | c[1] << 8 | c[0]; }
      const a = v === 0 ? 0 : least + (1 - least) * v / (v + 0.6 * per), byte = (k: 0 | 1 | 2) => Math.round(255 * ((picture.paper[k] + (picture.dim[k] - picture.paper[k]) * tint) * (1 - a) + picture.ink[k] * a));
      return 0xff000000 | byte(2) << 16 | byte(1) << 8 | byte(0);
    });
    const unknown = inks(0.07), known = inks(0), hatched = inks(0.65), row = Uint16Array.from({ length: h }, (_, y) => Math.floor(y * rows / h));
    for (let x = 0; x < w; x++) {
      const column = Math.floor(x * columns / w), c = picture.sweep ? column : (((stop + column) % columns) + columns) % columns, at = c * rows, how = state[c]!, paper = how === 1 ? known : unknown;
      for (let y = 0; y < h; y++) pixels[y * w + x] = (how === 2 && (x + y) % 10 < 2 ? hatched : paper)[counts[at + row[y]!]!]!;
    }
    g.putImageData(image, 0, 0);
  }
}
