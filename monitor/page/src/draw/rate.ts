// The population's rate: spikes of the channels that are shown, in bars of whole steps.
import { lowerBound, type Store } from "../link/store.ts";
import type { Picture } from "./raster.ts";

/** Sums of bars of `per` ticks each, in a ring: bar b holds the ticks [b · per, (b + 1) · per). */
export class RateBars {
  per = 1;
  private sums = new Float32Array(1);
  private end = 0; private window = 0; private from = 0; private to = 0; private order: Uint32Array | null = null;
  private version = -1; private store: Store | null = null;

  /** Counts new data since the last picture, or everything if another part is shown. At most about `most` bars. */
  update(store: Store, picture: Picture, most: number): void {
    const cell = store.cell, per = Math.max(1, Math.ceil(picture.window / Math.max(1, most) / cell)) * cell, room = Math.ceil(picture.window / per) + 2;
    const same = store === this.store && per === this.per && room === this.sums.length && picture.window === this.window && picture.from === this.from
      && picture.to === this.to && picture.order === this.order && store.version === this.version && picture.end >= this.end && picture.end - this.end < picture.window;
    let begin = this.end;
    if (!same) {
      if (room !== this.sums.length) this.sums = new Float32Array(room);
      Object.assign(this, { store, per, window: picture.window, from: picture.from, to: picture.to, order: picture.order, version: store.version });
      // The bar at the left edge is whole, too.
      begin = Math.floor((picture.end - picture.window) / per) * per;
      this.sums.fill(0);
    } else for (let b = Math.ceil(begin / per), last = Math.ceil(picture.end / per); b < last; b++) this.sums[this.slot(b)] = 0;
    this.end = picture.end;
    const { from, to, order } = picture, { tick, channel, weight } = store;
    for (let i = lowerBound(tick, store.spikes, begin), last = lowerBound(tick, store.spikes, picture.end); i < last; i++) {
      const c = channel[i]!, place = order ? order[c]! : c;
      if (place >= from && place < to) this.sums[this.slot(Math.floor(tick[i]! / per))]! += weight[i]!;
    }
  }

  private slot(bar: number): number { const n = this.sums.length; return ((bar % n) + n) % n; }

  /** The first and last bar of the picture, inclusive. */
  get span(): [number, number] { return [Math.floor((this.end - this.window) / this.per), Math.ceil(this.end / this.per) - 1]; }
  /** Spikes of a bar. */
  sum(bar: number): number { return this.sums[this.slot(bar)]!; }
  /** The most spikes of any bar that is full. */
  get most(): number {
    let most = 0;
    for (let [b, last] = this.span; b <= last; b++) if ((b + 1) * this.per <= this.end) most = Math.max(most, this.sum(b));
    return most;
  }
}
