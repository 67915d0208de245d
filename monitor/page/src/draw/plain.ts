// The raster without WebGL2: the same cells, put into a picture ten times a second at most.
import type { Store } from "../link/store.ts";
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
    const { rows, counts, state, sums } = this.cells, image = g.createImageData(w, h), stop = this.cells.stop(picture.end), [pr, pg, pb] = picture.paper.map(v => v * 255) as [number, number, number], [ir, ig, ib] = picture.ink.map(v => v * 255) as [number, number, number], dim = picture.dim.map(v => v * 255) as [number, number, number];
    let spikes = 0;
    for (const n of sums) spikes += n;
    const average = spikes / (rows * w), per = Math.max(1, average * 1.8), least = Math.max(0, 0.5 - average * 0.9), out = image.data;
    const share = Float32Array.from({ length: 256 }, (_, v) => v === 0 ? 0 : Math.min(1, least + (1 - least) * (1 - Math.exp(-v / per))));
    for (let x = 0; x < w; x++) {
      const c = picture.sweep ? x : (((stop + x) % w) + w) % w, known = state[c]!;
      for (let y = 0; y < h; y++) {
        const row = Math.floor(y * rows / h), a = share[counts[c * rows + row]!]!, at = 4 * (y * w + x), hatched = known === 2 && (x + y) % 10 < 2 ? 0.65 : known === 1 ? 0 : 0.07;
        out[at] = (pr + (dim[0] - pr) * hatched) * (1 - a) + ir * a;
        out[at + 1] = (pg + (dim[1] - pg) * hatched) * (1 - a) + ig * a;
        out[at + 2] = (pb + (dim[2] - pb) * hatched) * (1 - a) + ib * a;
        out[at + 3] = 255;
      }
    }
    g.putImageData(image, 0, 0);
  }
}
