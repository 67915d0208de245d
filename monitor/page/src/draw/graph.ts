// A graph drawn by WebGL2: positions in a texture, one instance per edge. So a threshold is a number of instances, and
// a layout is one small upload. Buffers hold the weakest edges first, so that the strongest are drawn last, on top.
import { program, type Rgb } from "./gl.ts";
import type { Edges } from "../net/model.ts";

export interface Layer { edges: Edges; n: number; ink: Rgb; dash: number; lowest: number; highest: number }
/** View of the plane: the point at (0, 0) of the canvas, and pixels per unit. */
export interface View { x: number; y: number; scale: number }
export interface Nodes { places: Float32Array; ink: Uint8Array; size: Float32Array }
/** Up to this number of edges, edges are quads with a width; above it, lines of one pixel. */
export const WIDE = 30_000;
const ROW = 1024;

const EDGE = `
uniform highp sampler2D at; uniform sampler2D ink; uniform vec4 view; uniform vec2 size; uniform vec3 range; uniform float wide;
layout(location=0) in uvec2 ends; layout(location=1) in float key; out float alpha; out float along;
ivec2 texel(uint n){return ivec2(int(n)%${ROW},int(n)/${ROW});}
void main(){
  float a=texelFetch(ink,texel(ends.x),0).a,b=texelFetch(ink,texel(ends.y),0).a;
  if(a==0.||b==0.){gl_Position=vec4(2,2,2,1);return;}
  vec2 p=(texelFetch(at,texel(ends.x),0).xy-view.xy)*view.z,q=(texelFetch(at,texel(ends.y),0).xy-view.xy)*view.z,d=q-p;
  float t=clamp((key-range.x)/max(1e-9,range.y-range.x),0.,1.),len=max(length(d),1e-6);
  bool far=(gl_VertexID&1)==1; vec2 c=far?q:p;
  float w=(.7+2.6*t)*view.w; c+=vec2(-d.y,d.x)/len*w*.5*(float(gl_VertexID>>1)*2.-1.)*wide;
  alpha=range.z*(.2+.8*t); along=far?len:0.;
  gl_Position=vec4(c.x/size.x*2.-1.,1.-c.y/size.y*2.,0,1);
}`;
const EDGE_INK = `in float alpha; in float along; uniform vec3 colour; uniform float dash; out vec4 o;
void main(){ if(dash>0.&&mod(along,dash*2.)>dash) discard; o=vec4(colour,alpha); }`;
const NODE = `
uniform highp sampler2D at; uniform sampler2D ink; uniform vec4 view; uniform vec2 size; layout(location=2) in float radius; out vec4 c;
void main(){ ivec2 t=ivec2(gl_VertexID%${ROW},gl_VertexID/${ROW}); vec2 p=(texelFetch(at,t,0).xy-view.xy)*view.z; c=texelFetch(ink,t,0);
  gl_Position=c.a==0.?vec4(2,2,2,1):vec4(p.x/size.x*2.-1.,1.-p.y/size.y*2.,0,1); gl_PointSize=radius*2.*view.w; }`;
const NODE_INK = `in vec4 c; out vec4 o; void main(){ float d=length(gl_PointCoord-.5)*2.; if(d>1.) discard; o=vec4(c.rgb,c.a*smoothstep(1.,.75,d)); }`;

interface Held { vao: WebGLVertexArrayObject; ends: WebGLBuffer; keys: WebGLBuffer }
type Uniform = "at" | "ink" | "view" | "size" | "range" | "wide" | "colour" | "dash";
interface Program { program: WebGLProgram; at: Partial<Record<Uniform, WebGLUniformLocation | null>> }
/** Fewer edges than this do not give a measurement of the cost, and are always drawn. */
const LEAST = 2_000;

export class GraphView {
  private readonly gl: WebGL2RenderingContext;
  private edge!: Program; private nodes!: Program;
  private at!: WebGLTexture; private ink!: WebGLTexture; private radius!: WebGLBuffer; private points!: WebGLVertexArrayObject;
  private held = new Map<Edges, Held>();
  private last: Nodes | null = null;
  /** Milliseconds per edge from a picture's calls to its end; 0: unknown. */
  private cost = 0;
  private timed: WebGLSync | null = null;
  /** Milliseconds of script for the last picture, and for the last filling of buffers. */
  spent = 0; filled = 0;

  /** `again` is called when a lost context is back and needs a picture. */
  constructor(readonly canvas: HTMLCanvasElement, again: () => void) {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("no WebGL2");
    this.gl = gl;
    this.make();
    canvas.addEventListener("webglcontextlost", e => e.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.held.clear(); this.last = this.timed = null; this.make(); again(); });
  }

  private make(): void {
    const gl = this.gl;
    // Look up uniform locations once, because each look-up asks another process.
    const ready = (vertex: string, fragment: string, names: Uniform[]): Program => {
      const made = program(gl, vertex, fragment);
      return { program: made, at: Object.fromEntries(names.map(n => [n, gl.getUniformLocation(made, n)])) };
    };
    this.edge = ready(EDGE, EDGE_INK, ["at", "ink", "view", "size", "range", "wide", "colour", "dash"]);
    this.nodes = ready(NODE, NODE_INK, ["at", "ink", "view", "size"]);
    this.at = gl.createTexture();
    this.ink = gl.createTexture();
    this.radius = gl.createBuffer();
    this.points = gl.createVertexArray();
  }

  private put(nodes: Nodes): void {
    const gl = this.gl, n = nodes.places.length / 2, rows = Math.max(1, Math.ceil(n / ROW));
    const texture = (t: WebGLTexture, inside: number, format: number, type: number, values: ArrayBufferView): void => {
      gl.bindTexture(gl.TEXTURE_2D, t);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      gl.texImage2D(gl.TEXTURE_2D, 0, inside, ROW, rows, 0, format, type, values);
    };
    if (this.last?.places !== nodes.places) {
      const padded = new Float32Array(2 * ROW * rows);
      padded.set(nodes.places);
      texture(this.at, gl.RG32F, gl.RG, gl.FLOAT, padded);
    }
    if (this.last?.ink !== nodes.ink) {
      const padded = new Uint8Array(4 * ROW * rows);
      padded.set(nodes.ink);
      texture(this.ink, gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE, padded);
    }
    if (this.last?.size !== nodes.size) {
      gl.bindVertexArray(this.points);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.radius);
      gl.bufferData(gl.ARRAY_BUFFER, nodes.size, gl.DYNAMIC_DRAW);
      gl.enableVertexAttribArray(2);
      gl.vertexAttribPointer(2, 1, gl.FLOAT, false, 4, 0);
    }
    this.last = nodes;
  }

  /** Fills the buffers of edges once; each picture only chooses how many of them it draws. */
  hold(e: Edges): Held {
    const known = this.held.get(e);
    if (known) { this.held.delete(e); this.held.set(e, known); return known; }
    const began = performance.now(), gl = this.gl, vao = gl.createVertexArray(), n = e.key.length, ends = new Uint32Array(2 * n), made: Held = { vao, ends: gl.createBuffer(), keys: gl.createBuffer() };
    const { i, j } = e;
    for (let k = 0, to = 2 * n - 2; k < n; k++, to -= 2) { ends[to] = i[k]!; ends[to + 1] = j[k]!; }
    gl.bindVertexArray(vao);
    gl.bindBuffer(gl.ARRAY_BUFFER, made.ends);
    gl.bufferData(gl.ARRAY_BUFFER, ends, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribDivisor(0, 1);
    gl.bindBuffer(gl.ARRAY_BUFFER, made.keys);
    gl.bufferData(gl.ARRAY_BUFFER, e.key.slice().reverse(), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribDivisor(1, 1);
    this.held.set(e, made);
    for (const [old, gone] of this.held) {
      if (this.held.size <= 8) break;
      gl.deleteVertexArray(gone.vao);
      gl.deleteBuffer(gone.ends);
      gl.deleteBuffer(gone.keys);
      this.held.delete(old);
    }
    this.filled = performance.now() - began;
    return made;
  }

  /** Number of edges that can be drawn in this many milliseconds, measured on the last complete pictures. */
  within(ms: number): number { return this.cost > 0 ? Math.max(LEAST, Math.floor(ms / this.cost)) : Infinity; }

  /** Measures the cost per edge when the picture just requested is done. */
  private time(edges: number): void {
    const gl = this.gl, began = performance.now(), sync = edges >= LEAST && !this.timed ? gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0) : null;
    if (!sync) return;
    this.timed = sync;
    // Check at growing intervals: high precision is not needed, and each check has a cost.
    let wait = 2;
    const look = (): void => {
      if (this.timed !== sync || gl.isContextLost()) return;
      if (gl.getSyncParameter(sync, gl.SYNC_STATUS) !== gl.SIGNALED) { setTimeout(look, wait *= 1.5); return; }
      gl.deleteSync(sync);
      this.timed = null;
      const now = (performance.now() - began) / edges;
      this.cost = this.cost > 0 ? (this.cost + now) / 2 : now;
    };
    setTimeout(look);
  }

  /** Draws at most `most` edges, the strongest of each layer; returns the number drawn. */
  draw(nodes: Nodes, layers: Layer[], view: View, most = Infinity): number {
    for (const l of layers) if (l.n > 0) this.hold(l.edges);
    const began = performance.now(), gl = this.gl, ratio = devicePixelRatio || 1;
    const w = Math.max(1, Math.round(this.canvas.clientWidth * ratio)), h = Math.max(1, Math.round(this.canvas.clientHeight * ratio));
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; }
    if (gl.isContextLost()) return 0;
    this.put(nodes);
    gl.viewport(0, 0, w, h);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.at);
    gl.activeTexture(gl.TEXTURE1); gl.bindTexture(gl.TEXTURE_2D, this.ink);
    const use = ({ program, at }: Program): Program["at"] => {
      gl.useProgram(program);
      gl.uniform1i(at.at!, 0);
      gl.uniform1i(at.ink!, 1);
      gl.uniform4f(at.view!, view.x, view.y, view.scale * ratio, ratio);
      gl.uniform2f(at.size!, w, h);
      return at;
    };
    const all = layers.reduce((sum, l) => sum + l.n, 0), share = Math.min(1, most / Math.max(1, all)), at = use(this.edge), dense = Math.min(0.9, Math.max(0.05, Math.sqrt(400 / Math.max(1, all)))), wide = all <= WIDE;
    let drawn = 0;
    for (const l of layers) {
      const n = Math.floor(l.n * share);
      if (n === 0) continue;
      const held = this.hold(l.edges), before = l.edges.key.length - n;
      gl.bindVertexArray(held.vao);
      gl.bindBuffer(gl.ARRAY_BUFFER, held.ends);
      gl.vertexAttribIPointer(0, 2, gl.UNSIGNED_INT, 8, 8 * before);
      gl.bindBuffer(gl.ARRAY_BUFFER, held.keys);
      gl.vertexAttribPointer(1, 1, gl.FLOAT, false, 4, 4 * before);
      gl.uniform3f(at.range!, l.lowest, l.highest, dense);
      gl.uniform3f(at.colour!, ...l.ink);
      gl.uniform1f(at.dash!, l.dash * ratio);
      gl.uniform1f(at.wide!, wide ? 1 : 0);
      if (wide) gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, n); else gl.drawArraysInstanced(gl.LINES, 0, 2, n);
      drawn += n;
    }
    use(this.nodes);
    gl.bindVertexArray(this.points);
    gl.drawArrays(gl.POINTS, 0, nodes.places.length / 2);
    gl.bindVertexArray(null);
    this.spent = performance.now() - began;
    // In a reduced picture, a larger part of the time is waiting.
    if (drawn === all) this.time(drawn);
    return drawn;
  }
}

/** The same without WebGL: at most `MOST_PLAIN` edges, the strongest; gives how many were drawn. */
export const MOST_PLAIN = 5_000;
export function drawPlain(g: CanvasRenderingContext2D, w: number, h: number, nodes: Nodes, layers: Layer[], view: View): number {
  g.clearRect(0, 0, w, h);
  const x = (n: number) => (nodes.places[2 * n]! - view.x) * view.scale, y = (n: number) => (nodes.places[2 * n + 1]! - view.y) * view.scale;
  const all = layers.reduce((sum, l) => sum + l.n, 0), share = Math.min(1, MOST_PLAIN / Math.max(1, all)), dense = Math.min(0.9, Math.max(0.08, Math.sqrt(400 / Math.max(1, all * share))));
  let drawn = 0;
  for (const l of layers) {
    const css = `rgb(${l.ink.map(v => Math.round(v * 255)).join(" ")})`, n = Math.floor(l.n * share);
    g.strokeStyle = css;
    g.setLineDash(l.dash > 0 ? [l.dash, l.dash] : []);
    for (let k = n - 1; k >= 0; k--) {
      const a = l.edges.i[k]!, b = l.edges.j[k]!;
      if (nodes.ink[4 * a + 3] === 0 || nodes.ink[4 * b + 3] === 0) continue;
      const t = Math.min(1, Math.max(0, (l.edges.key[k]! - l.lowest) / Math.max(1e-9, l.highest - l.lowest)));
      g.globalAlpha = dense * (0.2 + 0.8 * t);
      g.lineWidth = 0.7 + 2.6 * t;
      g.beginPath(); g.moveTo(x(a), y(a)); g.lineTo(x(b), y(b)); g.stroke();
      drawn++;
    }
  }
  g.setLineDash([]);
  g.globalAlpha = 1;
  for (let n = 0; 2 * n < nodes.places.length; n++) {
    if (nodes.ink[4 * n + 3] === 0) continue;
    g.fillStyle = `rgb(${nodes.ink[4 * n]} ${nodes.ink[4 * n + 1]} ${nodes.ink[4 * n + 2]})`;
    g.beginPath(); g.arc(x(n), y(n), nodes.size[n]!, 0, 2 * Math.PI); g.fill();
  }
  return drawn;
}
