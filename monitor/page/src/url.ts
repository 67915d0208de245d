// The page's state in its address: short named keys after the #.
export const VIEWS = ["live", "channels", "episodes", "networks", "simulation", "map", "model", "trials"] as const;
export type View = typeof VIEWS[number];
export const ORDERS = ["channel", "rate", "electrode"] as const;
export type Order = typeof ORDERS[number];
export interface Address {
  view: View;
  /** Seconds shown. */
  window: number;
  /** End of the view in seconds; null: now. */
  at: number | null;
  /** Channels shown, [from, to); null: all. */
  channels: [number, number] | null;
  order: Order;
  /** The selected channel. */
  channel: number | null;
  /** Number of the recording. */
  source: number;
  /** State of networks and episodes: short values by short keys. */
  more: Record<string, string>;
}
/** Networks shown, threshold, the second one, rule, node, comparison, places, axes, tab, overlay; episode and sorting of the list, windows that are mined; map,
 * what of it, stage, node, direction in space; region of a network, colours of its sessions; output and filter of weights; selected range; trials, and those that are overlaid. */
const MORE = ["n", "th", "th2", "rule", "node", "cmp", "pl", "ax", "tab", "ov", "ea", "ep", "by", "pw", "m", "mv", "st", "cell", "td", "rg", "ink", "wt", "sel", "tr", "tro"];
const WORD = /^[\w.,+-]{1,160}$/, REGION = /^[\d,-]{1,240}$/;
const fits = (key: string, value: string): boolean => (key === "rg" ? REGION : WORD).test(value);

export const START: Address = { view: "live", window: 10, at: null, channels: null, order: "channel", channel: null, source: 0, more: {} };
/** Longest window that an address may ask for. */
const MOST_SECONDS = 1e6;
export const WINDOWS = [0.01, 0.1, 1, 2, 5, 10, 20, 30, 60];

const number = (text: string | null): number | null => {
  if (text === null || text.trim() === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
};

/** The page's address for files and pictures; without the path, in which an embedded page has its token. */
export const here = (): string => `${location.origin}/${location.hash}`;

/** Reads an address; invalid parts are ignored. */
export function read(hash: string): Address {
  const query = new URLSearchParams(hash.replace(/^#\/?/, "")), address: Address = { ...START, more: {} };
  const view = query.get("v");
  if ((VIEWS as readonly string[]).includes(view ?? "")) address.view = view as View;
  const window = number(query.get("w"));
  if (window !== null && window >= 0.001 && window <= MOST_SECONDS) address.window = window;
  const at = number(query.get("t"));
  if (at !== null && at >= 0) address.at = at;
  const channels = /^(\d{1,7})-(\d{1,7})$/.exec(query.get("ch") ?? "");
  if (channels && Number(channels[1]) <= Number(channels[2])) address.channels = [Number(channels[1]), Number(channels[2]) + 1];
  const order = query.get("o");
  if ((ORDERS as readonly string[]).includes(order ?? "")) address.order = order as Order;
  const channel = number(query.get("c"));
  if (channel !== null && Number.isInteger(channel) && channel >= 0) address.channel = channel;
  const source = number(query.get("s"));
  if (source !== null && Number.isInteger(source) && source >= 0) address.source = source;
  for (const key of MORE) { const value = query.get(key); if (value !== null && fits(key, value)) address.more[key] = value; }
  return address;
}

const short = (value: number): string => String(Number(value.toFixed(6)));

/** The address of a state; defaults are left out. */
export function write(address: Address): string {
  const parts = [`v=${address.view}`];
  if (address.window !== START.window) parts.push(`w=${short(address.window)}`);
  if (address.at !== null) parts.push(`t=${short(address.at)}`);
  if (address.channels) parts.push(`ch=${address.channels[0]}-${address.channels[1] - 1}`);
  if (address.order !== START.order) parts.push(`o=${address.order}`);
  if (address.channel !== null) parts.push(`c=${address.channel}`);
  if (address.source !== 0) parts.push(`s=${address.source}`);
  for (const key of MORE) { const value = address.more[key]; if (value !== undefined && fits(key, value)) parts.push(`${key}=${value}`); }
  return `#${parts.join("&")}`;
}
