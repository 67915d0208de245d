/** The font of all canvases. */
export const font = (size = 11): string => `${size}px system-ui,"DejaVu Sans",sans-serif`;
/** Widths of the axes' labels by size and text. */
const widths = new Map<string, number>();
const MOST = 1000;
/** Width of a text in this font, in CSS pixels; the context must have this font. A label stays for many frames and is measured once. */
export function textWidth(g: CanvasRenderingContext2D, text: string, size = 11): number {
  const key = `${size} ${text}`, known = widths.get(key);
  if (known !== undefined) return known;
  if (widths.size >= MOST) widths.clear();
  const width = g.measureText(text).width;
  widths.set(key, width);
  return width;
}
