// Numbers and times as the page writes them.
const grouped = new Intl.NumberFormat("en");
export const whole = (value: number): string => grouped.format(Math.round(value));
/** A count and its noun: "1 trial", "1,234 trials". */
export const plural = (n: number, of: string): string => `${whole(n)} ${of}${n === 1 ? "" : "s"}`;

/** A value on an axis. */
export const brief = (value: number): string => String(Number(value.toPrecision(6)));

/** Steps of 1, 2, 5 × 10ⁿ, about `most` of them. */
export function ticks(from: number, to: number, most: number): number[] {
  if (!(to > from)) return [];
  const raw = (to - from) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw) ?? raw, all: number[] = [];
  for (let i = Math.ceil(from / step - 1e-9) + 0; i * step <= to + step * 1e-9; i++) all.push(i * step);
  return all;
}

/** Values of 1, 2 and 5 times a power of ten between two positive ends; powers of ten alone if those are many. */
export function logTicks(low: number, high: number): number[] {
  if (!(low > 0 && high > low)) return [];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), steps = high > 100 * low ? [1] : [1, 2, 5], all: number[] = [];
  for (let e = first; e <= last; e++) for (const m of steps) { const v = m * 10 ** e; if (v >= low && v <= high) all.push(v); }
  return all;
}

export function clock(seconds: number, digits = 0): string {
  // Rounded before it is split: 59.96 s are 1:00.0, not 0:60.0.
  const unit = 10 ** digits, all = Math.round(seconds * unit), rest = (all % (60 * unit)) / unit, minutes = Math.floor(all / (60 * unit));
  const h = Math.floor(minutes / 60), m = minutes % 60, tail = rest.toFixed(digits).padStart(digits > 0 ? digits + 3 : 2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${tail}` : `${m}:${tail}`;
}

/** Time on an axis: seconds, or minutes and seconds above one minute, with the digits that the axis' step needs. */
export function timeLabel(seconds: number, step: number): string {
  let digits = 0;
  // A step of 2.5 s needs one digit, although it is longer than a second.
  while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6 * step * 10 ** digits) digits++;
  return seconds < 60 && seconds.toFixed(digits) !== (60).toFixed(digits) ? `${seconds.toFixed(digits)} s` : clock(seconds, digits);
}

/** Length of a bin or a cell: milliseconds below a second. */
export const length = (seconds: number): string => seconds < 1 ? `${Number((seconds * 1e3).toPrecision(3))} ms` : `${Number(seconds.toPrecision(3))} s`;

/** Times of an axis in seconds, about `most` of them, each with its label. A window of a session that has just begun reaches to before its
 *  start: there is no time to label. */
export function timeTicks(from: number, to: number, most: number): { at: number; words: string }[] {
  const raw = (to - from) / Math.max(1, most), step = raw > 20 ? SEXAGESIMAL.find(s => s >= raw) ?? Math.ceil(raw / 86_400) * 86_400 : 0;
  if (step > 0) return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - Math.ceil(from / step - 1e-9) + 1) }, (_, i) => (Math.ceil(from / step - 1e-9) + i) * step).filter(t => t >= 0).map(at => ({ at, words: timeLabel(at, step) }));
  const all = ticks(from, to, most), fine = (all[1] ?? 1) - (all[0] ?? 0);
  return all.filter(t => t >= 0).map(t => ({ at: t, words: timeLabel(t, fine) }));
}
/** Steps of an axis of minutes and hours, in seconds. */
const SEXAGESIMAL = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

const short = (value: number): string => value < 9.95 ? String(Number(value.toFixed(1))) : value.toFixed(0);
export const duration = (ns: number): string => Number.isNaN(ns) ? "–" : ns < 999.5 ? `${ns.toFixed(0)} ns` : ns < 999.5e3 ? `${short(ns / 1e3)} µs` : ns < 999.5e6 ? `${short(ns / 1e6)} ms` : `${short(ns / 1e9)} s`;
/** Size in bytes, with a unit of a power of 1,000. */
export const bytes = (n: number): string => n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(2)} GB`;

/** Names without what all of them begin or end with, if that is long; numbers stay whole. */
export function withoutCommon(names: string[]): string[] {
  const first = names[0], LEAST = 6;
  if (first === undefined || names.length < 2) return names;
  let head = first.length, tail = first.length;
  for (const name of names) {
    let k = 0;
    while (k < head && k < name.length && name[k] === first[k]) k++;
    head = k;
  }
  for (const name of names) {
    let k = 0;
    while (k < tail && k < name.length - head && k < first.length - head && name[name.length - 1 - k] === first[first.length - 1 - k]) k++;
    tail = k;
  }
  const digit = (c: string | undefined): boolean => c !== undefined && c >= "0" && c <= "9";
  while (head > 0 && digit(first[head - 1])) head--;
  while (tail > 0 && digit(first[first.length - tail])) tail--;
  if (head < LEAST) head = 0;
  if (tail < LEAST) tail = 0;
  const short = head + tail > 0 ? names.map(name => name.slice(head, name.length - tail)) : names;
  return short.includes("") ? names : short;
}
