// Numbers and times as the page writes them.
const grouped = new Intl.NumberFormat("en");
export const whole = (value: number): string => grouped.format(Math.round(value));

/** Steps of 1, 2, 5 × 10ⁿ, about `most` of them. */
export function ticks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [];
  const raw = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw) ?? raw, all: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9) + 0; i * step <= to + step * 1e-9; i++) all.push(i * step);
  return all;
}

export function clock(seconds: number, digits = 0): string {
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60, s = seconds % 60;
  const tail = s.toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${tail}` : `${m}:${tail}`;
}

/** Of a time axis: seconds, or minutes and seconds beyond one; as many digits as its steps need. */
export function timeLabel(seconds: number, step: number): string {
  const digits = step < 0.01 ? 3 : step < 0.1 ? 2 : step < 1 ? 1 : 0;
  return seconds < 60 ? `${seconds.toFixed(digits)} s` : clock(seconds, digits);
}
