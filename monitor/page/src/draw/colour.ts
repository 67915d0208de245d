// Sequential colours: viridis, by its corner points.
const POINTS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]] as const;

export function viridis(share: number): string {
  const at = Math.min(1, Math.max(0, share)) * (POINTS.length - 1), i = Math.min(POINTS.length - 2, Math.floor(at)), f = at - i;
  const [a, b] = [POINTS[i]!, POINTS[i + 1]!];
  return `rgb(${[0, 1, 2].map(k => Math.round(a[k]! + (b[k]! - a[k]!) * f)).join(" ")})`;
}

const BELOW = [0, 114, 178], MIDDLE = [244, 244, 242], ABOVE = [213, 94, 0];
/** Diverging colours: blue below the middle, white in it, orange above. */
export function diverging(share: number): string {
  const at = Math.min(1, Math.max(0, share)) * 2 - 1, end = at < 0 ? BELOW : ABOVE;
  return `rgb(${MIDDLE.map((m, k) => Math.round(m + (end[k]! - m) * Math.abs(at))).join(" ")})`;
}
