// The raster: one texel per pixel, counted here; columns are uploaded as time moves on, and one triangle is drawn. The
// cost is the same for ten spikes and ten million.
import type { Store } from "../link/store.ts";
import { lowerBound } from "../link/store.ts";
import { ramp } from "./colour.ts";
import { program, type Rgb } from "./gl.ts";

export interface Picture {
  /** End of what is shown, exclusive, and its length, in ticks. */
  end: number; window: number;
  /** Channels shown: [from, to). */
  from: number; to: number;
  /** Row of each channel among all channels; null: its own number. */
  order: Uint32Array | null;
  /** Sweeps like an oscilloscope instead of scrolling. */
  sweep: boolean;
  ink: Rgb; paper: Rgb; dim: Rgb;
}

/** Counts of a column's rows; separate from the drawing, so that it can be tested against a plain count. */
export class Cells {
  columns = 0; rows = 0;
  counts = new Uint8Array(0);
  /** 0: nothing known, 1: known, 2: a hole. */
  state = new Uint8Array(0);
  /** Spikes of a column. */
  sums = new Float32Array(0);
  /** Most of a column's counts. */
  private tops = new Uint8Array(0);
  /** The row of a channel; -1 where it is not shown. */
  private rowOf = new Int32Array(0);
  private end = 0; private window = 1; private from = 0; private to = 1; private order: Uint32Array | null = null;
  private version = -1; private store: Store | null = null;

  /** Most spikes of one row and column. There are 255 levels of ink, each of `unit` spikes: above them the spikes are counted again. */
  get most(): number {
    let most = 0;
    for (const n of this.counts) if (n > most) most = n;
    const s = this.store;
    return s && (s.unit > 1 || most === 255) ? this.exact(s) : most;
  }
  private exact(s: Store): number {
    const key = [this.end, this.window, this.from, this.to, this.version, this.columns, this.rows].join();
    if (this.counted?.store === s && this.counted.order === this.order && this.counted.key === key) return this.counted.most;
    const sums = new Uint32Array(this.columns * this.rows), begin = (this.stop(this.end) - this.columns) * this.window / this.columns;
    let most = 0;
    for (let i = lowerBound(s.tick, s.spikes, Math.floor(begin)), end = lowerBound(s.tick, s.spikes, this.end); i < end; i++) {
      const row = this.rowOf[s.channel[i]!]!, when = s.when(i);
      if (row < 0 || when < begin || when >= this.end) continue;
      const at = this.wrap(this.start(when)) * this.rows + row;
      most = Math.max(most, sums[at]! += s.weight[i]!);
    }
    this.counted = { store: s, order: this.order, key, most };
    return most;
  }
  private counted: { store: Store; order: Uint32Array | null; key: string; most: number } | null = null;
  /** Seconds of a column, and channels of a row. */
  get size(): [seconds: number, channels: number] { return [this.window / this.columns * (this.store?.shape.stepSeconds ?? 1), (this.to - this.from) / this.rows]; }
  /** Amount of ink by number of spikes: one spike gets little if cells hold many on average. */
  ink(): { per: number; least: number; of: (spikes: number) => number } {
    let spikes = 0;
    for (const n of this.sums) spikes += n;
    const unit = this.store?.unit ?? 1, average = spikes / unit / (this.rows * this.columns), per = Math.max(1, average * 1.8), least = Math.max(0, 0.5 - average * 0.9);
    return { per, least, of: n => n > 0 ? least + (1 - least) * n / (n + 0.6 * per * unit) : 0 };
  }

  /** Counts of bins are colours, on a logarithmic scale up to `top` spikes, so that 1 and 16 differ; null where spikes are ink. The scale is in powers
   *  of two: it stays while time moves on. */
  heat(): { top: number; of: (spikes: number) => number } | null {
    const s = this.store;
    if (!s?.binned || s.offset) return null;
    let most = 1;
    for (const n of this.tops) if (n > most) most = n;
    const top = 2 ** Math.ceil(Math.log2(Math.max(2, most * s.unit)));
    return { top, of: n => Math.min(1, Math.log1p(n) / Math.log1p(top)) };
  }

  /** Ticks [a, b) are in the columns [start(a), stop(b)), counted from the clock's start. */
  start(tick: number): number { return Math.floor(tick * this.columns / this.window); }
  stop(tick: number): number { return Math.ceil(tick * this.columns / this.window); }
  private wrap(column: number): number { return ((column % this.columns) + this.columns) % this.columns; }

  /** Brings the counts up to the picture's end; gives the columns that changed, [first, last], or null where all did. */
  update(store: Store, picture: Picture, width: number, height: number): [number, number] | null {
    // Of an overview each column is a cell: a cell on the border of two columns would be counted in one of them.
    const columns = store.cell > 1 ? Math.min(width, Math.round(picture.window / store.cell)) : width;
    const rows = Math.max(1, Math.min(picture.to - picture.from, height));
    const same = store === this.store && columns === this.columns && rows === this.rows && picture.window === this.window
      && picture.from === this.from && picture.to === this.to && picture.order === this.order && store.version === this.version
      && picture.end >= this.end;
    if (!same || this.stop(picture.end) - this.start(this.end) >= columns) {
      this.rebuild(store, picture, columns, rows);
      return null;
    }
    const done = this.end;
    this.end = picture.end;
    for (let c = this.stop(done); c < this.stop(this.end); c++) this.clear(c);
    this.count(store, done, this.end);
    return [this.start(done), this.stop(this.end) - 1];
  }

  private rebuild(store: Store, picture: Picture, columns: number, rows: number): void {
    if (columns !== this.columns || rows !== this.rows) {
      this.counts = new Uint8Array(columns * rows);
      this.state = new Uint8Array(columns);
      this.sums = new Float32Array(columns);
      this.tops = new Uint8Array(columns);
    } else {
      this.counts.fill(0);
      this.state.fill(0);
      this.sums.fill(0);
      this.tops.fill(0);
    }
    Object.assign(this, { store, columns, rows, end: picture.end, window: picture.window, from: picture.from, to: picture.to, order: picture.order, version: store.version });
    const { from, to, order } = picture;
    this.rowOf = Int32Array.from({ length: store.shape.channels }, (_, c) => { const place = order ? order[c]! : c; return place >= from && place < to ? Math.floor((place - from) * rows / (to - from)) : -1; });
    // From the beginning of the oldest column that is shown.
    const begin = (this.stop(this.end) - columns) * this.window / columns;
    this.count(store, store.offset ? begin : Math.ceil(begin), this.end);
  }

  private clear(column: number): void {
    const c = this.wrap(column);
    this.counts.fill(0, c * this.rows, (c + 1) * this.rows);
    this.state[c] = 0;
    this.sums[c] = 0;
    this.tops[c] = 0;
  }

  private count(store: Store, from: number, to: number): void {
    const { rows, columns, counts, sums, tops, rowOf } = this;
    const mark = (a: number, b: number, state: number) => {
      if (a < b) for (let c = this.start(a), last = this.stop(b); c < last; c++) this.state[this.wrap(c)] = state;
    };
    mark(Math.max(from, store.first), Math.min(to, store.end), 1);
    for (const hole of store.holes) mark(Math.max(hole.from, from), Math.min(hole.to, to), 2);
    for (const [a, b] of store.leftOut) mark(Math.max(a, from), Math.min(b, to), 2);
    // A tick wider than a column is drawn so wide that the next one is told apart; a spike whose own time is known is a line.
    const wide = store.offset || store.cell > 1 ? 1 : Math.max(1, Math.floor(this.columns / this.window * 0.7));
    const { tick: ticks, channel: channels, weight: weights, unit } = store, end = lowerBound(ticks, store.spikes, to);
    let last = NaN, column = 0;
    for (let i = lowerBound(ticks, store.spikes, store.offset ? Math.floor(from) : from); i < end; i++) {
      const row = rowOf[channels[i]!]!, tick = ticks[i]!, n = Math.ceil(weights[i]! / unit);
      if (!(row >= 0)) continue;
      if (store.offset) {
        const when = store.when(i);
        if (when < from || when >= to) continue;
        column = this.wrap(this.start(when));
      }
      else if (tick !== last) { last = tick; column = this.wrap(this.start(tick)); }
      sums[column]! += weights[i]!;
      for (let k = column; k < column + wide; k++) {
        const c = k < columns ? k : k - columns, at = c * rows + row, sum = counts[at]! + n, held = sum < 255 ? sum : 255;
        counts[at] = held;
        if (held > tops[c]!) tops[c] = held;
      }
    }
  }
}

const VERTEX = "out vec2 uv;void main(){vec2 q=vec2(gl_VertexID&1,gl_VertexID>>1)*2.;uv=q;gl_Position=vec4(q*2.-1.,0,1);}";
const FRAGMENT = `uniform sampler2D cells,states,heat;uniform float head,per,rows,sweep,gap,least,top,unit;uniform vec3 ink,paper,dim;in vec2 uv;out vec4 o;
void main(){float x=fract(uv.x+head*(1.-sweep)),y=1.-uv.y;
float s=texture(states,vec2(x,.5)).r*255.;
vec3 c=paper;
if(s<.5)c=mix(paper,dim,.07);
if(s>1.5){float d=mod(gl_FragCoord.x+gl_FragCoord.y,10.);c=mix(paper,dim,d<2.?.65:.08);}
float v=texture(cells,vec2(y,x)).r*255.;
float a=v>0.?least+(1.-least)*v/(v+.6*per):0.;
vec3 i=ink;
if(top>0.&&v>0.){a=1.;i=texture(heat,vec2(clamp(log(1.+v*unit)/log(1.+top),0.,1.),.5)).rgb;}
a*=step(gap,fract(y*rows));
c=mix(c,i,a);
if(sweep>.5){float f=fract(uv.x-head);if(f<.004)c=ink;else if(f<.02)c=mix(paper,dim,.07);}
o=vec4(c,1);}`;

export class RasterView {
  readonly cells = new Cells();
  private readonly gl: WebGL2RenderingContext;
  private program!: WebGLProgram;
  private uniforms: Record<string, WebGLUniformLocation | null> = {};
  private counts: WebGLTexture | null = null;
  private states: WebGLTexture | null = null;
  private heat: WebGLTexture | null = null;
  /** The scale that is in the texture. */
  private scale: unknown = null;
  private sized = "";
  /** Most texels of a side. */
  private most = 0;
  lost = false;

  constructor(readonly canvas: HTMLCanvasElement) {
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error("no WebGL2");
    this.gl = gl;
    canvas.addEventListener("webglcontextlost", event => { event.preventDefault(); this.lost = true; });
    canvas.addEventListener("webglcontextrestored", () => { this.begin(); this.sized = ""; this.lost = false; });
    this.begin();
  }

  private begin(): void {
    this.program = program(this.gl, VERTEX, FRAGMENT);
    this.scale = null;
    this.most = this.gl.getParameter(this.gl.MAX_TEXTURE_SIZE) as number;
    for (const name of ["cells", "states", "head", "per", "rows", "sweep", "gap", "least", "ink", "paper", "dim", "heat", "top", "unit"]) this.uniforms[name] = this.gl.getUniformLocation(this.program, name);
  }

  /** `size`: device pixels; those of the canvas on the page where none is said. */
  draw(store: Store, picture: Picture, size?: [number, number]): void {
    if (this.lost) return;
    const gl = this.gl, ratio = devicePixelRatio || 1;
    const most = this.most, w = Math.min(most, Math.max(16, size?.[0] ?? Math.round(this.canvas.clientWidth * ratio))), h = Math.min(most, Math.max(16, size?.[1] ?? Math.round(this.canvas.clientHeight * ratio)));
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    const changed = this.cells.update(store, picture, w, h), { rows, columns } = this.cells;
    const textures = `${columns} ${rows}`;
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    if (this.sized !== textures) { this.textures(columns, rows); this.sized = textures; this.upload(0, columns - 1); }
    else if (changed === null || changed[1] - changed[0] >= columns - 1) this.upload(0, columns - 1);
    else if (changed[1] >= changed[0]) {
      const a = ((changed[0] % columns) + columns) % columns, b = ((changed[1] % columns) + columns) % columns;
      if (a <= b) this.upload(a, b); else { this.upload(a, columns - 1); this.upload(0, b); }
    }
    const head = ((this.cells.stop(picture.end) % columns) + columns) % columns / columns;
    gl.viewport(0, 0, w, h);
    gl.useProgram(this.program);
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.counts);
    gl.activeTexture(gl.TEXTURE1); gl.bindTexture(gl.TEXTURE_2D, this.states);
    const u = this.uniforms, pixels = h / rows;
    gl.uniform1i(u["cells"]!, 0); gl.uniform1i(u["states"]!, 1);
    gl.uniform1f(u["head"]!, head); gl.uniform1f(u["sweep"]!, picture.sweep ? 1 : 0);
    const { per, least } = this.cells.ink(), heat = this.cells.heat();
    if (heat) this.colours();
    gl.activeTexture(gl.TEXTURE2); gl.bindTexture(gl.TEXTURE_2D, this.heat);
    gl.uniform1i(u["heat"]!, 2); gl.uniform1f(u["top"]!, heat?.top ?? 0); gl.uniform1f(u["unit"]!, store.unit);
    gl.uniform1f(u["per"]!, per); gl.uniform1f(u["least"]!, least);
    gl.uniform1f(u["rows"]!, rows); gl.uniform1f(u["gap"]!, pixels >= 3 ? Math.min(0.34, 1.01 / pixels * Math.max(1, Math.floor(pixels / 6))) : 0);
    gl.uniform3fv(u["ink"]!, picture.ink); gl.uniform3fv(u["paper"]!, picture.paper); gl.uniform3fv(u["dim"]!, picture.dim);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  /** Puts the scale of counts into its texture. */
  private colours(): void {
    const gl = this.gl, scale = ramp();
    if (this.scale === scale) return;
    this.scale = scale;
    gl.deleteTexture(this.heat);
    this.heat = gl.createTexture();
    gl.activeTexture(gl.TEXTURE2); gl.bindTexture(gl.TEXTURE_2D, this.heat);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, scale.length, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, Uint8Array.from(scale.flatMap(c => [...c, 255])));
    for (const which of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, which, gl.NEAREST);
    for (const which of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, which, gl.CLAMP_TO_EDGE);
  }

  private textures(w: number, rows: number): void {
    const gl = this.gl;
    gl.deleteTexture(this.counts); gl.deleteTexture(this.states);
    const make = (unit: number, x: number, y: number) => {
      const texture = gl.createTexture();
      gl.activeTexture(unit); gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texStorage2D(gl.TEXTURE_2D, 1, gl.R8, x, y);
      for (const which of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, which, gl.NEAREST);
      for (const which of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, which, gl.CLAMP_TO_EDGE);
      return texture;
    };
    this.counts = make(gl.TEXTURE0, rows, w);
    this.states = make(gl.TEXTURE1, w, 1);
  }

  private upload(a: number, b: number): void {
    const gl = this.gl, { rows, counts, state } = this.cells;
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.counts);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, a, rows, b - a + 1, gl.RED, gl.UNSIGNED_BYTE, counts.subarray(a * rows, (b + 1) * rows));
    gl.activeTexture(gl.TEXTURE1); gl.bindTexture(gl.TEXTURE_2D, this.states);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, a, 0, b - a + 1, 1, gl.RED, gl.UNSIGNED_BYTE, state.subarray(a, b + 1));
  }
}
