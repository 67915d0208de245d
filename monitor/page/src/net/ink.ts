// Colours of sessions and communities: each also a dash or a number, never colour alone.
import { dim } from "../draw/colour.ts";
import { colours } from "../theme.ts";
import type { Rgb } from "../draw/gl.ts";
import { address } from "../state.ts";
import { NONE } from "./model.ts";
import { COMMUNITIES, SESSIONS, rgbOf } from "./palette.ts";

const RED = ["#ff8a78", "#b8483a", "#ffc0b4", "#8f3428"];
/** Dashes of the sessions' lines, in pixels; 0: solid. */
export const DASHES = [0, 6, 2.5, 12];
export const isDark = (): boolean => { const [r, g, b] = colours.panel.rgb; return r + g + b < 1.5; };
/** Which colour each session has: the address's `ink`, a digit a session, each once. */
const order = (): string => { const said = address.value.more["ink"] ?? ""; return /^(?!.*(.).*\1)[0-3]{4}$/.test(said) ? said : "0123"; };
/** The same with the next colour for a session; that which had it takes its own. */
export const recoloured = (k: number): string => { const now = order(), mine = now[k]!, next = String((Number(mine) + 1) % 4); return now.replace(/./g, c => c === mine ? next : c === next ? mine : c); };
export const sessionCss = (k: number): string => (dim() ? RED : SESSIONS[isDark() ? "dark" : "light"])[Number(order()[k % 4])]!;
export const sessionInk = (k: number): Rgb => rgbOf(sessionCss(k));

/** Twelve colours, then the same halfway to the paper; the next ones are grey, and have their numbers. */
export function communityInk(c: number): Rgb {
  if (c === NONE || c >= 24) return colours.dim.rgb;
  // Of red alone there are steps; the numbers tell those apart that look alike.
  if (dim()) { const v = 0.3 + 0.7 * (c * 5 % 12) / 11; return [v, 0.45 * v, 0.4 * v]; }
  const own = rgbOf(COMMUNITIES[isDark() ? "dark" : "light"][c % 12]!), paper = colours.panel.rgb;
  return c < 12 ? own : own.map((v, k) => (v + paper[k]!) / 2) as Rgb;
}
export const css = (c: Rgb): string => `rgb(${c.map(v => Math.round(v * 255)).join(" ")})`;
