// The page's data of a session: the last minute of spikes and outputs in arrays of fixed size, and its gaps.
import { meanR2, type SessionHistory, type Slot, type Verdict } from "./session.ts";
import { BUCKETS, More, STEP_BEFORE, bucketBegins, floats, numbers, type Counters, type Frame } from "./frame.ts";

export interface Shape {
  channels: number; outputs: number; stepSeconds: number; keepSeconds: number;
  /** Values of a gate per row: the probability of each class, then the factor of the gated outputs; 0 without a gate. */
  gate?: number;
  /** Length of a recording's own tick, where its spikes have their own times. */
  tickSeconds?: number;
}
export interface Miss { tick: number; ns: number }
export interface Hole { from: number; to: number; fillable: boolean }
export interface Happened { tick: number; type: string; [more: string]: unknown }
export interface Accuracy { r2: number[]; rms: number[] }
/** Steps by latency as the server counted them: by second of the session's clock, and all. */
export interface LatencyHistory { seconds: { at: number; counts: number[]; longest_ns: number }[]; all: number[]; longest_ns: number }
/** One second of the session's timeline. */
export interface Second { spikes: number; misses: number; r2: number }

/** Seconds of the latency line. */
export const LATENCY_SECONDS = 60;
const MOST_MISSES = 10_000, MOST_EVENTS = 2_000, MOST_TRIALS = 20_000;
/** Shortest step whose counts are shown as such; several spikes in a shorter one are single spikes still. */
export const LEAST_BIN_SECONDS = 0.005;
/** Largest number of spikes in the store: 48 MB. */
const MOST_SPIKES = 1 << 23;

export class Store {
  readonly shape: Shape;
  /** Ticks from `base`, ascending, and the channels of as many spikes. */
  readonly base: number;
  tick: Int32Array; channel: Uint16Array | Uint32Array; weight: Uint8Array | Uint32Array; spikes = 0;
  /** Fraction of its tick at which each spike lies; null if no finer time is known, as in a session. */
  offset: Float32Array | null = null;
  /** One row per step: its tick, the estimates, the intended outputs, and the estimates of the second model of a swap. */
  rowTick: Int32Array; estimate: Float32Array; truth: Float32Array; beside: Float32Array; rows = 0;
  /** Values of a gate, a row per step; NaN if there are none. */
  gate: Float32Array;
  hasTruth = false;
  /** A second model ran at some time. */
  hasBeside = false;
  /** Ticks from `base`: [first, end) is what is known, but for the holes. */
  first = 0; end = 0;
  holes: Hole[] = [];
  trials: number[] = []; misses: Miss[] = []; events: Happened[] = [];
  rates: Float32Array;
  /** Rates of the last minute, one row per second, the oldest first. */
  trend: Float32Array[] = [];
  counters: Counters | null = null;
  readonly latency = new Float64Array(BUCKETS);
  /** The longest step of all, in nanoseconds; NaN before the first. */
  longest = NaN;
  private readonly latencyRing = new Uint32Array(LATENCY_SECONDS * BUCKETS);
  private readonly longestRing = new Uint32Array(LATENCY_SECONDS);
  private latencySecond = -1;
  private readonly missTicks = new Set<number>();
  seconds: Second[] = [];
  /** Goes up whenever something other than the end changes. */
  version = 0;
  /** Spikes that arrived as counts in cells; their channels are those in the middle of a row. */
  grouped = 0;
  /** Number of rows of those cells. */
  groupedRows = 2048;
  /** Ticks per entry: 1, or those of a cell of an overview. */
  cell = 1;
  /** Spikes per level of ink: more than 1 where a cell holds more than a byte counts. */
  unit = 1;
  /** True if steps are bins that hold several spikes of a channel. */
  binned = false;
  /** True if there were more spikes than room, so that less time is stored than requested. */
  cut = false;
  private readonly keep: number;
  /** Labels of the last minute by tick. Rows that come after their label take it, too. */
  private readonly labels = new Map<number, number[]>();
  /** Ticks [from, to) that were left out of a recording on request: hatched, and nothing is counted there. */
  leftOut: [number, number][] = [];

  constructor(shape: Shape, base: number) {
    this.shape = shape;
    this.base = base;
    this.keep = Math.ceil(shape.keepSeconds / shape.stepSeconds);
    const wanted = Math.max(1 << 20, shape.channels * 30 * shape.keepSeconds);
    const room = Math.min(MOST_SPIKES, 2 ** Math.ceil(Math.log2(wanted)));
    this.tick = new Int32Array(room);
    this.channel = shape.channels > 65_536 ? new Uint32Array(room) : new Uint16Array(room);
    this.weight = new Uint8Array(room);
    const rows = Math.min(1 << 18, Math.max(2048, this.keep * 2));
    this.rowTick = new Int32Array(rows);
    this.estimate = new Float32Array(rows * shape.outputs);
    this.truth = new Float32Array(rows * shape.outputs);
    this.beside = new Float32Array(rows * shape.outputs);
    this.gate = new Float32Array(rows * (shape.gate ?? 0));
    this.rates = new Float32Array(shape.channels);
  }

  /** Time of spike `i` in ticks from `base`: as fine as it is known. */
  when(i: number): number { return this.tick[i]! + (this.offset?.[i] ?? 0); }

  seconds_(tick: number): number { return (tick + this.base) * this.shape.stepSeconds; }

  /** Number of seconds stored: fewer than requested if there are more spikes than room. */
  get keptSeconds(): number { return (this.end - Math.max(this.first, this.end - this.keep)) * this.shape.stepSeconds; }

  /** A frame of steps as they are taken. `lost`: frames between it and the one before never came. */
  add(frame: Frame, lost: boolean): void {
    const first = frame.first - this.base;
    if (this.end === 0 && this.rows === 0) this.first = this.end = first;
    if (first < this.end) this.forget(first);
    if (first > this.end) this.holes.push({ from: this.end, to: first, fillable: lost });
    this.append(frame, first);
    if (frame.counters) this.counters = frame.counters;
    this.addLatency(frame, first);
    for (const offset of frame.trials) this.trials.push(first + offset);
    if (this.trials.length > MOST_TRIALS) this.trials.splice(0, MOST_TRIALS / 2);
    for (const { offset, ns } of frame.slow) {
      this.missed({ tick: offset === STEP_BEFORE ? first - 1 : first + offset, ns });
    }
    if (this.misses.length > MOST_MISSES) for (const { tick } of this.misses.splice(0, MOST_MISSES / 2)) this.missTicks.delete(tick);
    if (frame.rates) {
      this.rates = frame.rates.slice();
      this.trend.push(this.rates);
      if (this.trend.length > 60) this.trend.shift();
    }
    this.end = first + frame.ticks;
    this.second(first).spikes += frame.spikeTick.length;
    if (this.end - this.first > this.keep * 2) this.first = this.end - this.keep * 2;
    while (this.holes.length > 0 && this.holes[0]!.to < this.first) this.holes.shift();
  }

  happened(event: Happened): void {
    if (event.type === "labels") { this.label(event["rows"] as [number, number[]][]); return; }
    if (event.type === "trial") {
      const tick = event.tick - this.base, at = lowerBound(this.trials, this.trials.length, tick);
      if (this.trials[at] !== tick) this.trials.splice(at, 0, tick);
      this.version++;
      return;
    }
    // A mark is named after it was set.
    const marked = event["what"] === "name mark" ? this.events.find(e => e["what"] === "mark" && e["mark"] === event["mark"]) : undefined;
    if (marked) { marked["text"] = event["text"]; this.version++; return; }
    this.events.push({ ...event, tick: event.tick - this.base });
    if (this.events.length > MOST_EVENTS) this.events.splice(0, MOST_EVENTS / 2);
    this.version++;
  }

  /** True outputs that come after their steps. */
  label(rows: [number, number[]][]): void {
    for (const [tick, values] of rows) if (values.length === this.shape.outputs) this.labels.set(tick - this.base, values);
    const first = this.end - this.keep;
    for (const tick of this.labels.keys()) if (tick < first) this.labels.delete(tick);
    this.applyLabels(rows.map(([tick]) => tick - this.base));
    this.version++;
  }

  /** Puts labels into the rows of their ticks, if these are here. */
  private applyLabels(ticks: Iterable<number>): void {
    const o = this.shape.outputs;
    for (const tick of ticks) {
      const i = lowerBound(this.rowTick, this.rows, tick), values = this.labels.get(tick);
      if (!values || i === this.rows || this.rowTick[i] !== tick) continue;
      this.truth.set(values, i * o);
      this.hasTruth = true;
    }
  }

  /** The target in force at a tick; null without one. */
  targetAt(tick: number): number[] | null {
    const values = this.events.findLast(e => e.type === "target" && e.tick <= tick)?.["values"] as number[] | undefined;
    return values?.length === this.shape.outputs ? values : null;
  }

  /** The server's verdict on the decoder, and those before it; null until it is known. */
  verdict: Verdict | null = null;
  verdicts: SessionHistory["past"] = [];

  /** Numbers of the server for some seconds, in place of what arrived here. */
  slot(slot: Slot): void {
    const first = Math.max(0, slot.at - Math.round(this.base * this.shape.stepSeconds)), r2 = meanR2(slot);
    for (let at = first; at < first + slot.seconds; at++) Object.assign(this.secondAt(at), { spikes: slot.spikes / slot.seconds, misses: at === first ? slot.misses : 0, r2 });
    this.told = Math.max(this.told, first + slot.seconds);
  }
  /** Seconds before this one are the server's. */
  private told = 0;

  /** The second of a tick, to count in. What comes later of a second that is the server's is in its numbers already. */
  private second(tick: number): Second {
    const at = Math.max(0, Math.floor(tick * this.shape.stepSeconds));
    return at < this.told ? { spikes: 0, misses: 0, r2: NaN } : this.secondAt(at);
  }
  private secondAt(at: number): Second {
    while (this.seconds.length <= at) this.seconds.push({ spikes: 0, misses: 0, r2: NaN });
    return this.seconds[at]!;
  }

  /** The number of second `at` of the clock in the ring; the seconds up to it that had no step are emptied. */
  private latencySlot(at: number): number {
    for (let s = Math.max(this.latencySecond + 1, at - LATENCY_SECONDS + 1); s <= at; s++) {
      const slot = (s < 0 ? 0 : s) % LATENCY_SECONDS;
      this.latencyRing.fill(0, slot * BUCKETS, (slot + 1) * BUCKETS);
      this.longestRing[slot] = 0;
    }
    this.latencySecond = Math.max(this.latencySecond, at);
    return Math.max(0, at) % LATENCY_SECONDS;
  }

  private addLatency(frame: Frame, first: number): void {
    const slot = this.latencySlot(Math.floor(first * this.shape.stepSeconds)), longest = numbers(frame, More.Longest)[0] ?? 0;
    for (let i = 0; i < frame.latency.length && i < BUCKETS; i++) {
      this.latency[i]! += frame.latency[i]!;
      this.latencyRing[slot * BUCKETS + i]! += frame.latency[i]!;
    }
    this.longestRing[slot] = Math.max(this.longestRing[slot]!, longest);
    if (longest > 0) this.longest = Math.max(this.longest || 0, longest);
  }

  /** Takes the counts of the server, which began before this page, in place of the part of them that arrived here. */
  latencyBefore(of: LatencyHistory): void {
    for (const { at, counts, longest_ns } of of.seconds) {
      const second = at - Math.floor(this.base * this.shape.stepSeconds);
      if (second <= this.latencySecond - LATENCY_SECONDS) continue;
      const slot = this.latencySlot(second);
      counts.forEach((n, i) => { if (i < BUCKETS) this.latencyRing[slot * BUCKETS + i] = Math.max(this.latencyRing[slot * BUCKETS + i]!, n); });
      this.longestRing[slot] = Math.max(this.longestRing[slot]!, longest_ns);
    }
    of.all.forEach((n, i) => { if (i < BUCKETS) this.latency[i] = Math.max(this.latency[i]!, n); });
    if (of.longest_ns > 0) this.longest = Math.max(this.longest || 0, of.longest_ns);
    this.version++;
  }

  /** Time at which the latency line begins, in seconds. */
  get latencyFrom(): number { return this.latencySecond - LATENCY_SECONDS + 1 + this.base * this.shape.stepSeconds; }

  /** Percentile `share` of the latency in every second of the last minute, in nanoseconds, the oldest first; NaN without steps. */
  latencyTrend(share: number): number[] {
    return Array.from({ length: LATENCY_SECONDS }, (_, i) => {
      const second = this.latencySecond - LATENCY_SECONDS + 1 + i;
      if (second < 0) return NaN;
      const slot = (second % LATENCY_SECONDS) * BUCKETS;
      return percentile(this.latencyRing.subarray(slot, slot + BUCKETS), share);
    });
  }

  /** The longest step of the last minute, in nanoseconds; NaN without steps, or if only the ends of their buckets are known. */
  get recentLongest(): number { return Math.max(...this.longestRing) || NaN; }

  /** Steps by latency of the last minute. */
  recentLatency(): Float64Array {
    const sum = new Float64Array(BUCKETS);
    for (let i = 0; i < this.latencyRing.length; i++) sum[i % BUCKETS]! += this.latencyRing[i]!;
    return sum;
  }

  /** The session's clock went back: what lay after is no more. */
  private forget(from: number): void {
    this.spikes = lowerBound(this.tick, this.spikes, from);
    this.rows = lowerBound(this.rowTick, this.rows, from);
    this.holes = this.holes.filter(h => h.from < from);
    this.end = from;
    this.version++;
  }

  private append(frame: Frame, first: number): void {
    const cells = frame.cells;
    if (cells) {
      const { rows, columns, wide, counts } = cells, per = this.shape.channels / rows;
      for (let c = 0; c < columns; c++) for (let r = 0; r < rows; r++) {
        const n = counts[c * rows + r]!;
        if (n > 0) { this.spike(first + c * wide, Math.floor((r + 0.5) * per), n); this.grouped += n; }
      }
    } else {
      const n = Math.min(frame.spikeTick.length, frame.spikeChannel.length);
      this.room(n);
      const at = this.spikes, ticks = this.tick, offsets = frame.spikeTick;
      for (let i = 0; i < n; i++) ticks[at + i] = first + offsets[i]!;
      this.channel.set(frame.spikeChannel.subarray(0, n) as Uint16Array, at);
      if (!this.binned && this.shape.stepSeconds >= LEAST_BIN_SECONDS) for (let i = at + 1; i < at + n && !this.binned; i++) this.binned = ticks[i] === ticks[i - 1] && this.channel[i] === this.channel[i - 1];
      const fractions = floats(frame, More.Offset);
      if (fractions.length === n && n > 0) (this.offset ??= new Float32Array(ticks.length)).set(fractions, at);
      this.weight.fill(1, at, at + n);
      this.spikes += n;
    }
    this.appendRows(frame, first);
  }

  private appendRows(frame: Frame, first: number): void {
    const outputs = this.shape.outputs, gated = this.shape.gate ?? 0;
    const rows = outputs > 0 ? Math.floor(frame.estimate.length / outputs) : frame.ticks;
    if (this.rows + rows > this.rowTick.length) {
      const keep = Math.min(this.rows, this.rowTick.length >> 1), from = this.rows - keep;
      this.rowTick.copyWithin(0, from, this.rows);
      this.estimate.copyWithin(0, from * outputs, this.rows * outputs);
      this.truth.copyWithin(0, from * outputs, this.rows * outputs);
      this.beside.copyWithin(0, from * outputs, this.rows * outputs);
      this.gate.copyWithin(0, from * gated, this.rows * gated);
      this.rows = keep;
      if (keep + rows > this.rowTick.length) return;
    }
    for (let i = 0; i < rows; i++) {
      const tick = first + (frame.rowTick ? frame.rowTick[i]! : i);
      const before = i > 0 ? this.rowTick[this.rows + i - 1]! : tick - 1;
      // Ticks without a step are not silence.
      if (tick > before + 1) this.holes.push({ from: before + 1, to: tick, fillable: false });
      this.rowTick[this.rows + i] = tick;
    }
    this.estimate.set(frame.estimate.subarray(0, rows * outputs), this.rows * outputs);
    if (frame.truth && frame.truth.length >= rows * outputs) {
      this.hasTruth = true;
      this.truth.set(frame.truth.subarray(0, rows * outputs), this.rows * outputs);
    } else this.truth.fill(NaN, this.rows * outputs, (this.rows + rows) * outputs);
    const beside = floats(frame, More.Beside);
    if (outputs > 0 && beside.length >= rows * outputs) {
      this.hasBeside = true;
      this.beside.set(beside.subarray(0, rows * outputs), this.rows * outputs);
    } else this.beside.fill(NaN, this.rows * outputs, (this.rows + rows) * outputs);
    const gate = floats(frame, More.Gate);
    if (gate.length >= rows * gated) this.gate.set(gate.subarray(0, rows * gated), this.rows * gated);
    else this.gate.fill(NaN, this.rows * gated, (this.rows + rows) * gated);
    this.rows += rows;
    if (this.labels.size > 0) this.applyLabels(this.rowTick.subarray(this.rows - rows, this.rows));
  }

  private room(n: number): void {
    if (this.spikes + n <= this.tick.length) return;
    const keep = Math.min(this.spikes, Math.max(0, (this.tick.length >> 1) + (this.tick.length >> 2) - n)), from = this.spikes - keep;
    this.tick.copyWithin(0, from, this.spikes);
    this.channel.copyWithin(0, from, this.spikes);
    this.weight.copyWithin(0, from, this.spikes);
    this.offset?.copyWithin(0, from, this.spikes);
    this.spikes = keep;
    this.cut = true;
    if (keep > 0) this.first = Math.max(this.first, this.tick[0]!);
  }

  private spike(tick: number, channel: number, n: number): void {
    this.room(1);
    this.tick[this.spikes] = tick;
    this.channel[this.spikes] = channel;
    this.weight[this.spikes++] = n;
  }

  /** Frames of the server's history, into the ticks [from, to): before what is known, or into a hole. */
  fill(frames: Frame[], from: number, to: number): void {
    const late = new Store(this.shape, this.base);
    late.first = late.end = Math.max(from, -2147483648);
    const covered: [number, number][] = [], rates: Float32Array[] = [];
    for (const frame of frames) {
      const first = frame.first - this.base;
      if (first + frame.ticks <= from || first >= to || first < late.end - frame.ticks) continue;
      late.append(frame, first);
      late.end = first + frame.ticks;
      if (frame.rates) rates.push(frame.rates.slice());
      covered.push([Math.max(first, from), Math.min(first + frame.ticks, to)]);
      const within = first >= from && first + frame.ticks <= to;
      for (const offset of frame.trials) if (first + offset >= from && first + offset < to) this.trials.push(first + offset);
      if (within) for (const { offset, ns } of frame.slow) this.missed({ tick: offset === STEP_BEFORE ? first - 1 : first + offset, ns });
      if (within) this.second(first).spikes += frame.spikeTick.length;
    }
    if (covered.length === 0) return;
    this.trials.sort((a, b) => a - b);
    this.sortMisses();
    this.hasTruth ||= late.hasTruth;
    this.hasBeside ||= late.hasBeside;
    this.binned ||= late.binned;
    const cut = this.insertSpikes(late, from, to);
    this.insertRows(late, from, to);
    if (this.labels.size > 0) this.applyLabels(this.labels.keys());
    const before = from < this.first;
    // Into a hole they do not fit any more: their seconds are not kept.
    if (before) this.trend = [...rates, ...this.trend].slice(-60);
    if (before) this.first = Math.max(from, covered[0]![0]);
    // Where the oldest had to go, what is known begins with the oldest that is there.
    if (cut) { this.cut = true; this.first = Math.max(this.first, this.tick[0] ?? 0); }
    const left: Hole[] = [];
    for (const hole of this.holes) {
      let at = hole.from;
      for (const [a, b] of covered) {
        if (b <= at || a >= hole.to) continue;
        if (a > at) left.push({ from: at, to: a, fillable: false });
        at = Math.max(at, b);
      }
      if (at < hole.to) left.push({ from: at, to: hole.to, fillable: at === hole.from && hole.fillable });
    }
    left.push(...late.holes.filter(h => h.from >= from && h.to <= to && h.from >= this.first));
    this.holes = left.sort((a, b) => a.from - b.from);
    this.version++;
  }

  /** A missed deadline, once: it may come with its frame, and by the server's list of those before. */
  missed(miss: Miss): void {
    if (this.missTicks.has(miss.tick)) return;
    this.missTicks.add(miss.tick);
    this.misses.push(miss);
    this.second(miss.tick).misses++;
  }

  sortMisses(): void { this.misses.sort((a, b) => a.tick - b.tick); }

  private insertSpikes(late: Store, from: number, to: number): boolean {
    const a = lowerBound(this.tick, this.spikes, from), b = lowerBound(this.tick, this.spikes, to);
    const c = lowerBound(late.tick, late.spikes, from), d = lowerBound(late.tick, late.spikes, to);
    const after = this.spikes - b, n = d - c;
    // The oldest go where there is no room.
    const drop = Math.min(a, Math.max(0, a + n + after - this.tick.length)), take = Math.min(n, this.tick.length - (a - drop) - after);
    for (const [mine, theirs] of [[this.tick, late.tick], [this.channel, late.channel], [this.weight, late.weight]] as [Int32Array, Int32Array][]) {
      const tail = mine.slice(b, this.spikes);
      if (drop > 0) mine.copyWithin(0, drop, a);
      mine.set(theirs.subarray(d - take, d), a - drop);
      mine.set(tail, a - drop + take);
    }
    this.spikes = a - drop + take + after;
    return drop > 0 || take < n;
  }

  private insertRows(late: Store, from: number, to: number): void {
    const o = this.shape.outputs;
    const a = lowerBound(this.rowTick, this.rows, from), b = lowerBound(this.rowTick, this.rows, to);
    const c = lowerBound(late.rowTick, late.rows, from), d = lowerBound(late.rowTick, late.rows, to);
    const after = this.rows - b, n = d - c;
    const drop = Math.min(a, Math.max(0, a + n + after - this.rowTick.length)), take = Math.min(n, this.rowTick.length - (a - drop) - after);
    for (const [mine, theirs, w] of [[this.rowTick, late.rowTick, 1], [this.estimate, late.estimate, o], [this.truth, late.truth, o], [this.beside, late.beside, o], [this.gate, late.gate, this.shape.gate ?? 0]] as [Float32Array, Float32Array, number][]) {
      const tail = mine.slice(b * w, this.rows * w);
      if (drop > 0) mine.copyWithin(0, drop * w, a * w);
      mine.set(theirs.subarray((d - take) * w, d * w), (a - drop) * w);
      mine.set(tail, (a - drop + take) * w);
    }
    this.rows = a - drop + take + after;
  }

  /** The number of ticks in [from, to) that are not known. */
  hidden(from: number, to: number): number {
    let ticks = 0;
    for (const h of this.holes) ticks += Math.max(0, Math.min(h.to, to) - Math.max(h.from, from));
    return ticks;
  }

  /** The number of ticks in [from, to) that were left out on request. */
  without(from: number, to: number): number {
    let ticks = 0;
    for (const [a, b] of this.leftOut) ticks += Math.max(0, Math.min(b, to) - Math.max(a, from));
    return ticks;
  }

  /** 1 − residual / total sum of squares of each output over [from, to), where `values` are; NaN where there is no truth. */
  r2(from: number, to: number, values = this.estimate): number[] { return this.accuracy(from, to, values).r2; }

  /** R² of each output, and the root of its mean squared error in its own unit. */
  accuracy(from: number, to: number, values = this.estimate): Accuracy {
    const o = this.shape.outputs, a = lowerBound(this.rowTick, this.rows, from), b = lowerBound(this.rowTick, this.rows, to);
    const r2: number[] = [], rms: number[] = [];
    for (let k = 0; k < o; k++) {
      let n = 0, mean = 0, total = 0, residual = 0;
      for (let i = a; i < b; i++) {
        const t = this.truth[i * o + k]!, e = values[i * o + k]!;
        if (t !== t || e !== e) continue;
        n++;
        const d = t - mean;
        mean += d / n;
        total += d * (t - mean);
        residual += (e - t) * (e - t);
      }
      r2.push(n > 1 && total > 0 ? 1 - residual / total : NaN);
      rms.push(n > 0 ? Math.sqrt(residual / n) : NaN);
    }
    return { r2, rms };
  }
}

/** The finest time that is known, in seconds: the recording's tick, or the step. */
export const tickOf = (s: Store): number => s.offset ? s.shape.tickSeconds ?? s.shape.stepSeconds : s.shape.stepSeconds;

/** The first of `n` ascending numbers that is not below `value`. */
export function lowerBound(sorted: ArrayLike<number>, n: number, value: number): number {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1; else high = middle;
  }
  return low;
}

/** Percentile of a latency histogram, in nanoseconds: the end of the bucket it lies in. */
export function percentile(counts: ArrayLike<number> & Iterable<number>, share: number): number {
  let total = 0, seen = 0;
  for (const n of counts) total += n;
  if (total === 0) return NaN;
  for (let i = 0; i < counts.length; i++) {
    seen += counts[i]!;
    if (seen >= share * total) return bucketBegins(i + 1);
  }
  return NaN;
}
