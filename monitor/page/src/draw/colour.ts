// Colours of scales: viridis, by its corner points, and a diverging one; of both a red one, for eyes that are used to the dark.
type Bytes = readonly [number, number, number];
const VIRIDIS: Bytes[] = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
const DIVERGING: Bytes[] = [[0, 114, 178], [244, 244, 242], [213, 94, 0]], REDS: Bytes[] = [[38, 6, 4], [255, 138, 120]];
/** Red on black is asked for: no other colour is drawn. */
export const dim = (): boolean => typeof document !== "undefined" && document.documentElement.dataset["theme"] === "low";

function between(points: Bytes[], share: number): Bytes {
  const at = Math.min(1, Math.max(0, share)) * (points.length - 1), i = Math.min(points.length - 2, Math.floor(at)), f = at - i, a = points[i]!, b = points[i + 1]!;
  return [0, 1, 2].map(k => Math.round(a[k]! + (b[k]! - a[k]!) * f)) as unknown as Bytes;
}
const css = (c: Bytes): string => `rgb(${c.join(" ")})`;

export const viridis = (share: number): string => css(between(dim() ? REDS : VIRIDIS, share));
/** Blue below the middle, white in it, orange above. */
export const diverging = (share: number): string => css(between(dim() ? REDS : DIVERGING, share));

const ramps = new Map<Bytes[], Bytes[]>();
/** The sequential scale in 256 steps. */
export function ramp(): Bytes[] {
  const points = dim() ? REDS : VIRIDIS, found = ramps.get(points);
  if (found) return found;
  const made = Array.from({ length: 256 }, (_, k) => between(points, k / 255));
  ramps.set(points, made);
  return made;
}
