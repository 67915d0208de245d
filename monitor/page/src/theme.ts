// Light, dark, and red on black for eyes that are used to the dark; colours as the style sheet has them.
import { signal, effect } from "@preact/signals";
import type { Rgb } from "./draw/gl.ts";

export const THEMES = ["system", "light", "dark", "low"] as const;
export type Theme = typeof THEMES[number];
const KEY = "betz-theme";

/** The browser's storage; null in a frame that may not store anything. */
const storage = (): Storage | null => { try { return localStorage; } catch { return null; } };
const stored = (): Theme => {
  const found = storage()?.getItem(KEY) ?? null;
  return (THEMES as readonly string[]).includes(found ?? "") ? found as Theme : "system";
};
export const theme = signal<Theme>(stored());
/** Goes up when colours change. */
export const painted = signal(0);

const NAMES = ["bg", "panel", "ink", "dim", "line", "x", "y", "z", "w", "true", "good", "warn", "bad", "spike"] as const;
type Name = typeof NAMES[number];
export interface Colour { css: string; rgb: Rgb }
export const colours = {} as Record<Name, Colour>;

/** Runs `work` with the light colours, which print well, whatever theme the page has. */
export function inLight<T>(work: () => T): T {
  const root = document.documentElement, before = root.dataset["theme"], held = { ...colours };
  root.dataset["theme"] = "light";
  try { probeColours(); return work(); } finally { root.dataset["theme"] = before ?? "system"; Object.assign(colours, held); }
}

/** Through a computed `color`: what a style sheet's shortening makes of a value is not read as text. */
function probeColours(): void {
  const probe = document.createElement("i");
  document.body.append(probe);
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    const css = getComputedStyle(probe).color, parts = (css.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number);
    colours[name] = { css, rgb: [parts[0]! / 255, parts[1]! / 255, parts[2]! / 255] };
  }
  probe.remove();
}
function readColours(): void {
  probeColours();
  painted.value = painted.peek() + 1;
}

export function begin(): void {
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value;
    if (theme.value === "system") storage()?.removeItem(KEY); else storage()?.setItem(KEY, theme.value);
    readColours();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
}

export const next = (): void => { theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!; };
export const still = matchMedia("(prefers-reduced-motion: reduce)");
/** The ink of an output, and its dashes: never colour alone. */
/** Number of colours of outputs; more of them begin again. */
export const OUTPUT_INKS = 4;
export const outputInk = (k: number): Colour => [colours.x, colours.y, colours.z, colours.w][k % OUTPUT_INKS]!;
