// Colours of sessions and communities on light and dark paper.
import type { Rgb } from "../draw/gl.ts";

/** Chosen so that people with deuteranopia tell the colours apart, too; the unit tests measure it. */
export const SESSIONS = { light: ["#1f6fd0", "#c2410c", "#1b4332", "#a83a8a"], dark: ["#4b96ff", "#ffe100", "#87f0f0", "#e07a4b"] };
export const COMMUNITIES = {
  light: ["#0000ff", "#ff5a00", "#ff3cc3", "#004b0f", "#4b0fa5", "#ff5a69", "#5a96f0", "#691e4b", "#1e3c78", "#b40000", "#3c5aff", "#d23c78"],
  dark: ["#0087ff", "#ffe100", "#ff4b96", "#4b9600", "#5ad2ff", "#e1f096", "#5afff0", "#3c96a5", "#4b87d2", "#4be12d", "#c3f0c3", "#4bc369"],
};

export function rgbOf(css: string): Rgb {
  const n = parseInt(css.slice(1), 16);
  return [(n >> 16) / 255, (n >> 8 & 255) / 255, (n & 255) / 255];
}
