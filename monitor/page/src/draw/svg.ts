// A canvas that writes SVG: what a panel draws on the page becomes vectors in a figure. It has what the panels use of a canvas in the plane.
import { safe } from "./escape.ts";

type Style = string | CanvasPattern | CanvasGradient;
const SKETCH = ["fillStyle", "strokeStyle", "globalAlpha", "lineWidth", "font", "textAlign", "textBaseline", "lineJoin", "lineCap", "imageSmoothingEnabled"] as const;
const short = (v: number): string => String(Number(v.toFixed(2)));
/** Distance from where a text is put to its baseline, in heights of its font. */
const BASELINES: Partial<Record<CanvasTextBaseline, number>> = { top: 0.8, hanging: 0.8, middle: 0.35, bottom: -0.22 };
const ANCHORS: Partial<Record<CanvasTextAlign, string>> = { center: "middle", right: "end", end: "end" };
/** Patterns by the picture that they repeat: a canvas does not tell. */
export const tiles = new WeakMap<object, string>();
let numbers = 0;

export class SvgCanvas {
  fillStyle: Style = "#000"; strokeStyle: Style = "#000"; globalAlpha = 1; lineWidth = 1; font = "10px sans-serif";
  textAlign: CanvasTextAlign = "start"; textBaseline: CanvasTextBaseline = "alphabetic"; lineJoin: CanvasLineJoin = "miter"; lineCap: CanvasLineCap = "butt"; imageSmoothingEnabled = true;
  private parts: string[] = [];
  private path = "";
  private dash: number[] = [];
  /** Names of patterns by their picture. */
  private readonly patterns = new Map<string, string>();
  /** States that were saved, and how many groups each has opened. */
  private saved: { state: Partial<Record<string, unknown>>; dash: number[]; groups: number }[] = [];
  private groups = 0;
  /** Style of the last shape, to which others of the same style are added. */
  private last = "";

  /** `measure`: width of a text in a font, in pixels. */
  constructor(private readonly measure: (text: string, font: string) => number) {}

  /** The shapes that were drawn, as SVG. */
  get markup(): string { return this.parts.join("") + "</g>".repeat(this.groups); }

  beginPath(): void { this.path = ""; }
  moveTo(x: number, y: number): void { if (Number.isFinite(x + y)) this.path += `M${short(x)} ${short(y)}`; }
  lineTo(x: number, y: number): void { if (Number.isFinite(x + y)) this.path += `${this.path === "" ? "M" : "L"}${short(x)} ${short(y)}`; }
  closePath(): void { this.path += "Z"; }
  rect(x: number, y: number, w: number, h: number): void { if (Number.isFinite(x + y + w + h)) this.path += `M${short(x)} ${short(y)}h${short(w)}v${short(h)}h${short(-w)}Z`; }
  arc(x: number, y: number, r: number, from: number, to: number): void { this.ellipse(x, y, r, r, 0, from, to); }
  ellipse(x: number, y: number, rx: number, ry: number, _turn: number, from: number, to: number): void {
    if (!Number.isFinite(x + y + rx + ry)) return;
    const at = (a: number): string => `${short(x + rx * Math.cos(a))} ${short(y + ry * Math.sin(a))}`, part = (a: number, b: number): string => `A${short(rx)} ${short(ry)} 0 ${b - a > Math.PI ? 1 : 0} 1 ${at(b)}`;
    const whole = to - from >= 2 * Math.PI, end = whole ? from + 2 * Math.PI : to;
    // One arc cannot end where it begins.
    this.path += `${this.path === "" || whole ? "M" : "L"}${at(from)}` + (whole ? part(from, from + Math.PI) + part(from + Math.PI, end) + "Z" : part(from, end));
  }
  setLineDash(dash: number[]): void { this.dash = dash; }
  fill(): void { this.shape(this.path, this.paint("fill", this.fillStyle)); }
  stroke(): void { this.shape(this.path, this.line()); }
  fillRect(x: number, y: number, w: number, h: number): void { this.boxed(x, y, w, h, this.paint("fill", this.fillStyle)); }
  strokeRect(x: number, y: number, w: number, h: number): void { this.boxed(x, y, w, h, this.line()); }
  /** Nothing was drawn before. */
  clearRect(): void { /* Paper lies below. */ }

  fillText(text: string, x: number, y: number, most?: number): void { this.text(text, x, y, most, this.paint("fill", this.fillStyle)); }
  strokeText(text: string, x: number, y: number, most?: number): void { this.text(text, x, y, most, this.line()); }
  measureText(text: string): { width: number } { return { width: this.measure(text, this.font) }; }

  drawImage(of: HTMLCanvasElement, ...a: number[]): void {
    let source = of, [x, y, w, h] = [a[0]!, a[1]!, a[2] ?? of.width, a[3] ?? of.height];
    if (a.length === 8) {
      [x, y, w, h] = [a[4]!, a[5]!, a[6]!, a[7]!];
      source = document.createElement("canvas");
      source.width = Math.max(1, a[2]!); source.height = Math.max(1, a[3]!);
      source.getContext("2d")!.drawImage(of, a[0]!, a[1]!, a[2]!, a[3]!, 0, 0, a[2]!, a[3]!);
    }
    this.image(source.toDataURL("image/png"), x, y, w, h);
  }
  /** A picture that is there already. */
  image(url: string, x: number, y: number, w: number, h: number): void {
    this.put(`<image x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" preserveAspectRatio="none"${this.imageSmoothingEnabled ? "" : ' image-rendering="pixelated"'} href="${url}"${this.clear()}/>`);
  }
  createPattern(of: HTMLCanvasElement): object {
    const pattern = {};
    tiles.set(pattern, `<image width="${of.width}" height="${of.height}" href="${of.toDataURL("image/png")}"/>|${of.width}|${of.height}`);
    return pattern;
  }

  save(): void {
    this.saved.push({ state: Object.fromEntries(SKETCH.map(name => [name, this[name]])), dash: this.dash, groups: this.groups });
  }
  restore(): void {
    const before = this.saved.pop();
    if (!before) return;
    Object.assign(this, before.state);
    this.dash = before.dash;
    if (this.groups > before.groups) this.put("</g>".repeat(this.groups - before.groups));
    this.groups = before.groups;
  }
  clip(): void {
    const id = `c${++numbers}`;
    this.put(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
    this.groups++;
  }
  translate(x: number, y: number): void { this.put(`<g transform="translate(${short(x)} ${short(y)})">`); this.groups++; }
  scale(x: number, y: number): void { this.put(`<g transform="scale(${x} ${y})">`); this.groups++; }

  private clear(): string { return this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : ""; }
  private colour(of: Style): string {
    if (typeof of === "string") return of;
    const [picture, w, h] = (tiles.get(of) ?? "").split("|");
    if (!picture) return "none";
    const known = this.patterns.get(picture);
    if (known) return `url(#${known})`;
    const id = `p${++numbers}`;
    this.patterns.set(picture, id);
    this.put(`<pattern id="${id}" width="${w}" height="${h}" patternUnits="userSpaceOnUse">${picture}</pattern>`);
    return `url(#${id})`;
  }
  private paint(how: "fill" | "stroke", of: Style): string { return ` ${how}="${this.colour(of)}"${this.clear()}`; }
  private line(): string {
    const dash = this.dash.length > 0 ? ` stroke-dasharray="${this.dash.join(" ")}"` : "", cap = this.lineCap === "butt" ? "" : ` stroke-linecap="${this.lineCap}"`, join = this.lineJoin === "miter" ? "" : ` stroke-linejoin="${this.lineJoin}"`;
    return `${this.paint("stroke", this.strokeStyle)} fill="none" stroke-width="${short(this.lineWidth)}"${dash}${cap}${join}`;
  }
  private boxed(x: number, y: number, w: number, h: number, style: string): void {
    if (Number.isFinite(x + y + w + h)) this.shape(`M${short(x)} ${short(y)}h${short(w)}v${short(h)}h${short(-w)}Z`, style);
  }
  private put(markup: string): void { this.parts.push(markup); this.last = ""; }
  private shape(path: string, style: string): void {
    if (path === "") return;
    // Many boxes of one colour are one shape; where they are seen through, each is its own.
    if (this.last === style && this.globalAlpha === 1) { this.parts[this.parts.length - 1] = `${this.parts.at(-1)!.slice(0, -(style.length + 3))}${path}"${style}/>`; return; }
    this.put(`<path d="${path}"${style}/>`);
    this.last = style;
  }
  private text(text: string, x: number, y: number, most: number | undefined, style: string): void {
    if (text === "" || !Number.isFinite(x + y)) return;
    const size = Number(/([\d.]+)px/.exec(this.font)?.[1] ?? 10), anchor = ANCHORS[this.textAlign], down = (BASELINES[this.textBaseline] ?? 0) * size;
    const narrow = most !== undefined && this.measure(text, this.font) > most ? ` textLength="${short(most)}" lengthAdjust="spacingAndGlyphs"` : "";
    this.put(`<text x="${short(x)}" y="${short(y + down)}" font-size="${size}"${/bold/.test(this.font) ? ' font-weight="bold"' : ""}${anchor ? ` text-anchor="${anchor}"` : ""}${narrow}${style}>${safe(text)}</text>`);
  }
}
