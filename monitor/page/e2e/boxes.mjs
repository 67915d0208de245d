// A font of boxes in place of the machine's: pictures then do not depend on the fonts that are installed, nor on how the
// system hints and smooths them. Every character is a box, about as wide and as high as in a usual font; blanks are blank.
const EM = 1000, ASCENT = 930, DESCENT = 240, LAST = 0x2fff;
/** Widths and heights of the boxes by glyph: missing, blank, then narrow, middle and wide ones, low and high. */
const GLYPHS = [[600, 730], [318, 0], [320, 547], [320, 730], [600, 547], [630, 730], [840, 547], [860, 730]];
const NARROW = "ijltfrI.,:;'|!`()[]{}/\\", WIDE = "mwMW@%", LOW = "acegmnopqrsuvwxyz.,:;_-–−·~";

const glyphOf = code => {
  const text = String.fromCharCode(code);
  if (/[\s\u200b]/.test(text)) return 1;
  const wide = WIDE.includes(text) || code >= 0x2190 ? 2 : NARROW.includes(text) ? 0 : 1;
  return 2 + 2 * wide + (LOW.includes(text) ? 0 : 1);
};
/** Advance of a text in px of a font of so many px. */
export const widthOf = (text, px) => [...text].reduce((sum, c) => sum + GLYPHS[glyphOf(c.charCodeAt(0))][0], 0) / EM * px;

/** Numbers of 2 bytes, and of 4, big-endian. */
const words = (...all) => { const bytes = Buffer.alloc(2 * all.length); all.forEach((v, i) => bytes.writeInt16BE(v << 16 >> 16, 2 * i)); return bytes; };
const longs = (...all) => { const bytes = Buffer.alloc(4 * all.length); all.forEach((v, i) => bytes.writeUInt32BE(v >>> 0, 4 * i)); return bytes; };

/** A TrueType font of these boxes. */
export function boxes() {
  const most = Math.max(...GLYPHS.map(g => g[0])), outlines = GLYPHS.map(([wide, high]) => {
    if (high === 0) return Buffer.alloc(0);
    const left = 50, right = wide - 50;
    // One contour of four points on the curve, each by its distance from the one before.
    return Buffer.concat([words(1, left, 0, right, high, 3, 0), Buffer.from([1, 1, 1, 1]), words(left, right - left, 0, left - right, 0, 0, high, 0), Buffer.alloc(2)]);
  });
  let end = 0;
  const places = [0, ...outlines.map(o => end += o.length)];
  const groups = Array.from({ length: LAST - 0x1f }, (_, i) => longs(0x20 + i, 0x20 + i, glyphOf(0x20 + i)));
  const tables = {
    "OS/2": Buffer.concat([words(0, 600, 400, 5, 0, 650, 700, 0, 140, 650, 700, 0, 480, 50, 260, 0), Buffer.alloc(10), longs(1, 0, 0, 0), Buffer.from("BETZ"), words(0x40, 0x20, LAST, ASCENT, -DESCENT, 0, ASCENT, DESCENT)]),
    cmap: Buffer.concat([words(0, 1, 3, 10), longs(12), words(12, 0), longs(16 + 12 * groups.length, 0, groups.length), ...groups]),
    glyf: Buffer.concat(outlines),
    head: Buffer.concat([longs(0x10000, 0x10000, 0, 0x5f0f3cf5), words(0, EM), Buffer.alloc(16), words(0, 0, most, 730, 0, 8, 2, 1, 0)]),
    hhea: Buffer.concat([longs(0x10000), words(ASCENT, -DESCENT, 0, most, 0, 0, most, 1, 0, 0, 0, 0, 0, 0, 0, GLYPHS.length)]),
    hmtx: words(...GLYPHS.flatMap(([wide, high]) => [wide, high === 0 ? 0 : 50])),
    loca: longs(...places),
    maxp: Buffer.concat([longs(0x10000), words(GLYPHS.length, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)]),
    name: words(0, 0, 6),
    post: Buffer.concat([longs(0x30000, 0), words(-100, 50), longs(0, 0, 0, 0, 0)]),
  };
  const names = Object.keys(tables), padded = names.map(n => Buffer.concat([tables[n], Buffer.alloc(-tables[n].length & 3)]));
  const power = 2 ** Math.floor(Math.log2(names.length)), entries = [];
  let at = 12 + 16 * names.length;
  names.forEach((name, i) => {
    let sum = 0;
    for (let k = 0; k < padded[i].length; k += 4) sum = sum + padded[i].readUInt32BE(k) >>> 0;
    entries.push(Buffer.from(name), longs(sum, at, tables[name].length));
    at += padded[i].length;
  });
  return Buffer.concat([longs(0x10000), words(names.length, 16 * power, Math.log2(power), 16 * (names.length - power)), ...entries, ...padded]);
}

/** Has a page draw all its text in boxes, on canvases, too. */
export const inBoxes = page => page.addInitScript(font => {
  document.fonts.add(new FontFace("Boxes", Uint8Array.from(atob(font), c => c.charCodeAt(0)).buffer));
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("*{font-family:Boxes!important;font-synthesis:none!important;text-rendering:geometricPrecision!important}");
  document.adoptedStyleSheets = [sheet];
  const { get, set } = Object.getOwnPropertyDescriptor(CanvasRenderingContext2D.prototype, "font");
  Object.defineProperty(CanvasRenderingContext2D.prototype, "font", { get, set(text) { set.call(this, text.replace(/px .*/, "px Boxes")); this.textRendering = "geometricPrecision"; } });
}, boxes().toString("base64"));
