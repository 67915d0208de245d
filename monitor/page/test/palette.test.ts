import assert from "node:assert/strict";
import { test } from "node:test";
import { COMMUNITIES, SESSIONS, rgbOf } from "../src/net/palette.ts";

type Triple = [number, number, number];
const linear = (c: number): number => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const times = (m: number[][], v: number[]): Triple => m.map(row => row.reduce((a, x, k) => a + x * v[k]!, 0)) as Triple;
/** Deuteranopia in linear light: Machado, Oliveira and Fernandes (2009), severity 1. */
const DEUTAN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]];
const XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], WHITE = [0.9505, 1, 1.089];
function lab(light: number[]): Triple {
  const [x, y, z] = times(XYZ, light).map((v, k) => { const t = v / WHITE[k]!; return t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116; }) as Triple;
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const seen = (css: string, deutan: boolean): Triple => { const light = rgbOf(css).map(linear); return lab(deutan ? times(DEUTAN, light).map(v => Math.min(1, Math.max(0, v))) : light); };
/** Least difference (ΔE of 1976) of two of the colours. */
function least(all: string[], deutan: boolean): number {
  const at = all.map(c => seen(c, deutan));
  return Math.min(...at.flatMap((a, i) => at.slice(i + 1).map(b => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]))));
}

test("colours of sessions and communities differ for all eyes and for those with deuteranopia", () => {
  for (const deutan of [false, true]) {
    for (const [scheme, all] of Object.entries(SESSIONS)) assert.ok(least(all, deutan) >= 30, `sessions, ${scheme}, deuteranopia ${deutan}: ${least(all, deutan)}`);
    for (const [scheme, all] of Object.entries(COMMUNITIES)) assert.ok(least(all, deutan) >= 24, `communities, ${scheme}, deuteranopia ${deutan}: ${least(all, deutan)}`);
  }
  // The measure itself: a blue and a violet that these eyes confuse.
  const alike = ["#0072b2", "#7a4fa3"];
  assert.ok(least(alike, true) < 10 && least(alike, false) > 30, `${least(alike, true)} ${least(alike, false)}`);
});
