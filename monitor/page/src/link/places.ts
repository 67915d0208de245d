// Places of channels in a picture: at their electrodes, or in a grid.
export interface Places {
  at: ([number, number] | null)[];
  /** Size of each mark as a share of the pitch: units of one site stand side by side on it. */
  share: number[];
  known: boolean; pitch: number; box: [number, number, number, number];
}

/** Places of channels: their positions, or a grid if there are none or all are the same. Channels of one position have a
 *  square each, side by side. */
export function places(um: ([number, number] | null)[] | null, channels: number, ratio: number): Places {
  const sites = new Map<string, number[]>();
  if (um?.length === channels) um.forEach((p, c) => { if (p) sites.set(p.join(), [...sites.get(p.join()) ?? [], c]); });
  const known = sites.size > 1 || sites.size === 1 && channels === 1, columns = Math.max(1, Math.ceil(Math.sqrt(channels * ratio)));
  const at: ([number, number] | null)[] = Array.from({ length: channels }, (_, c) => known ? um![c]! : [c % columns, Math.floor(c / columns)]), share = Array.from(at, () => 1);
  // The least distance between two sites, of a sample: how large a mark may be.
  let pitch = known ? Infinity : 1;
  const some = known ? [...sites.values()].slice(0, 400).map(of => um![of[0]!]!) : [];
  for (let i = 0; i < some.length; i++) for (let j = 0; j < i; j++) pitch = Math.min(pitch, Math.hypot(some[i]![0] - some[j]![0], some[i]![1] - some[j]![1]));
  if (pitch === Infinity) pitch = 1;
  if (known) for (const of of sites.values()) {
    const side = Math.ceil(Math.sqrt(of.length));
    of.forEach((c, i) => {
      const [x, y] = um![c]!, shift = (k: number): number => ((k + 0.5) / side - 0.5) * pitch * 0.86;
      at[c] = [x + shift(i % side), y + shift(Math.floor(i / side))];
      share[c] = 1 / side;
    });
  }
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const p of at) if (p) { x0 = Math.min(x0, p[0]); x1 = Math.max(x1, p[0]); y0 = Math.min(y0, p[1]); y1 = Math.max(y1, p[1]); }
  return { at, share, known, pitch, box: [x0, y0, x1, y1] };
}
