// Groups of electrodes, by the channels' names or places, and the rows of the raster by group.

export interface Groups { names: string[]; /** Group of each channel. */ of: Uint16Array; /** Row of each channel: by group, then from top to bottom and left to right. */ order: Uint32Array }
const MOST = 64;

/** "M1 12" is of "M1", "shank2_e7" of "shank2_e". */
const stem = (name: string): string => name.replace(/[\s_.:#-]*\d+[a-z]?$/i, "");

/** Clusters of electrodes that lie much closer to each other than to others; null if there is but one. */
function byPlace(at: ([number, number] | null)[]): { names: string[]; of: Uint16Array } | null {
  const n = at.length, known = at.flatMap((p, c) => p ? [c] : []);
  if (known.length < 4 || n > 4096) return null;
  const far = (a: number, b: number) => Math.hypot(at[a]![0] - at[b]![0], at[a]![1] - at[b]![1]);
  // Along the longer side: an electrode is compared only with those that are near it there.
  const extent = (k: 0 | 1) => { let low = Infinity, high = -Infinity; for (const c of known) { low = Math.min(low, at[c]![k]); high = Math.max(high, at[c]![k]); } return high - low; };
  const axis = extent(0) >= extent(1) ? 0 : 1, line = [...known].sort((a, b) => at[a]![axis] - at[b]![axis]), along = Float64Array.from(line, c => at[c]![axis]), places = new Uint16Array(n);
  line.forEach((c, i) => { places[c] = i; });
  /** Visits the electrodes around one that may be as near as `within`, which a visit may shorten. */
  const around = (c: number, within: () => number, visit: (other: number) => void) => {
    const from = places[c]!;
    for (const by of [-1, 1]) for (let i = from + by; i >= 0 && i < line.length && Math.abs(along[i]! - along[from]!) <= within(); i += by) visit(line[i]!);
  };
  const nearest = known.map(a => {
    let least = Infinity;
    around(a, () => least, b => { const d = far(a, b); if (d > 0 && d < least) least = d; });
    return least;
  }).sort((a, b) => a - b);
  const reach = 3 * nearest[nearest.length >> 1]!, of = new Uint16Array(n).fill(65_535);
  let groups = 0;
  for (const start of known) {
    if (of[start] !== 65_535) continue;
    const open = [start];
    of[start] = groups;
    for (let a = open.pop(); a !== undefined; a = open.pop()) { const here = a; around(here, () => reach, b => { if (of[b] === 65_535 && far(here, b) <= reach) { of[b] = groups; open.push(b); } }); }
    groups++;
  }
  const names = Array.from({ length: groups }, (_, k) => `array ${k + 1}`);
  if (known.length < n) { names.push("no place"); at.forEach((p, c) => { if (!p) of[c] = groups; }); }
  return groups > 1 && groups <= MOST ? { names, of } : null;
}

export function groupsOf(names: string[], at: ([number, number] | null)[] | null): Groups | null {
  const stems = new Map<string, number>(), byName = new Uint16Array(names.length);
  names.forEach((name, c) => { const k = stem(name); if (!stems.has(k) && stems.size <= MOST) stems.set(k, stems.size); byName[c] = stems.get(k) ?? 0; });
  const named = stems.size > 1 && stems.size <= MOST && 2 * stems.size <= names.length ? { names: [...stems.keys()].map(k => k || "–"), of: byName } : null;
  const found = named ?? (at && at.length === names.length ? byPlace(at) : null);
  if (!found) return null;
  const by = names.map((_, c) => c).sort((a, b) => found.of[a]! - found.of[b]! || (at?.[a] && at[b] ? at[a]![1] - at[b]![1] || at[a]![0] - at[b]![0] : 0) || a - b), order = new Uint32Array(names.length);
  by.forEach((c, row) => { order[c] = row; });
  return { ...found, order };
}

export interface Run { group: number; from: number; to: number }
/** Rows [from, to) of one group that follow each other, of the places [low, high); none if groups are scattered. */
export function runs(groups: Groups, order: Uint32Array | null, low: number, high: number): Run[] {
  const at = new Uint16Array(groups.of.length), all: Run[] = [];
  groups.of.forEach((group, c) => { at[order ? order[c]! : c] = group; });
  for (let row = low; row < high; row++) {
    const last = all.at(-1);
    if (last && last.group === at[row]) last.to = row + 1; else all.push({ group: at[row]!, from: row, to: row + 1 });
  }
  return all.length <= 2 * groups.names.length ? all : [];
}
