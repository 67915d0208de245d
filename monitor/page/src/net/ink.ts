// Colours of sessions and communities: each also a dash or a number, never colour alone.
import { dim } from "../draw/colour.ts";
import { colours } from "../theme.ts";
import type { Rgb } from "../draw/gl.ts";
import { address } from "../state.ts";
import { NONE } from "./model.ts";

const LIGHT = ["#0072b2", "#b04a00", "#00704f", "#7a4fa3"], DARK = ["#56b4e9", "#f0a05a", "#3ecf9a", "#c3a0e0"], RED = ["#ff8a78", "#b8483a", "#ffc0b4", "#8f3428"];
/** Dashes of the sessions' lines, in pixels; 0: solid. */
export const DASHES = [0, 6, 2.5, 12];
export const isDark = (): boolean => { const [r, g, b] = colours.panel.rgb; return r + g + b < 1.5; };
/** Which colour each session has: the address's `ink`, a digit a session, each once. */
const order = (): string => { const said = address.value.more["ink"] ?? ""; return /^(?!.*(.).*\1)[0-3]{4}$/.test(said) ? said : "0123"; };
/** The same with the next colour for a session; that which had it takes its own. */
export const recoloured = (k: number): string => { const now = order(), mine = now[k]!, next = String((Number(mine) + 1) % 4); return now.replace(/./g, c => c === mine ? next : c === next ? mine : c); };
export const sessionCss = (k: number): string => (dim() ? RED : isDark() ? DARK : LIGHT)[Number(order()[k % 4])]!;
export function rgbOf(css: string): Rgb {
  const n = parseInt(css.slice(1), 16);
  return [(n >> 16) / 255, (n >> 8 & 255) / 255, (n & 255) / 255];
}
export const sessionInk = (k: number): Rgb => rgbOf(sessionCss(k));

/** Twelve hues of two lightnesses; the next ones are grey, and have their numbers. */
export function communityInk(c: number): Rgb {
  if (c === NONE || c >= 24) return colours.dim.rgb;
  // Of red alone there are steps; the numbers tell those apart that look alike.
  if (dim()) { const v = 0.3 + 0.7 * (c * 5 % 12) / 11; return [v, 0.45 * v, 0.4 * v]; }
  const hue = c % 12 / 12, light = (c < 12 ? 0.42 : 0.62) + (isDark() ? 0.14 : 0), s = 0.62, a = s * Math.min(light, 1 - light);
  const f = (n: number): number => { const k = (n + hue * 12) % 12; return light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)); };
  return [f(0), f(8), f(4)];
}
export const css = (c: Rgb): string => `rgb(${c.map(v => Math.round(v * 255)).join(" ")})`;
