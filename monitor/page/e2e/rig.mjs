// A session at work for each test: the example `watched`, on a port of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { test as base, expect } from "@playwright/test";

const program = process.env.BETZ_WATCHED;

export const start = (...args) => run(program, args);
export async function run(program, args) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), once(child, "exit").then(([code]) => { throw new Error(`${program} ended with ${code} before it said its address`); })]);
  return { url: line, port: new URL(line).port, pid: child.pid, stop: async () => { if (child.exitCode !== null || child.signalCode !== null) return; const gone = once(child, "exit"); child.kill(); await gone; } };
}

export const test = base.extend({
  args: [["--channels", "192"], { option: true }],
  rig: async ({ args }, use) => { const rig = await start(...args); await use(rig); await rig.stop(); },
  // Whatever a page says on its console, or asks of anybody else, is a fault.
  watched: async ({ page, rig }, use) => {
    const faults = [];
    page.on("console", m => faults.push(`console: ${m.text()}`));
    page.on("pageerror", e => faults.push(`error: ${e.message}`));
    page.on("request", r => { if (!new URL(r.url()).host.endsWith(`:${rig.port}`) && !r.url().startsWith("data:")) faults.push(`asks ${r.url()}`); });
    await page.goto(rig.url);
    await use({ page, faults });
  },
});
/** Recordings, networks and episodes, by the example `shown`: one program for all tests of a worker. */
export const shown = base.extend({
  plainRig: [async ({}, use) => { const rig = await run(process.env.BETZ_SHOWN, []); await use(rig); await rig.stop(); }, { scope: "worker" }],
  /** Two recordings: the second has reaches with outputs, and times of 10 µs. */
  reachRig: [async ({}, use) => { const rig = await run(process.env.BETZ_SHOWN, ["--reaches"]); await use(rig); await rig.stop(); }, { scope: "worker" }],
  reached: async ({ page, reachRig }, use) => {
    const faults = [];
    page.on("console", m => faults.push(`console: ${m.text()}`));
    page.on("pageerror", e => faults.push(`error: ${e.message}`));
    await page.goto(reachRig.url);
    await page.goto(new URL("/#v=live&s=1&t=20&w=5", reachRig.url).href);
    await page.reload();
    await page.waitForFunction(() => globalThis.betz?.store?.shape.channels === 32 && globalThis.betz.store.spikes > 100);
    await use({ page, faults });
  },
  looked: async ({ page, plainRig }, use) => {
    const faults = [];
    page.on("console", m => faults.push(`console: ${m.text()}`));
    page.on("pageerror", e => faults.push(`error: ${e.message}`));
    page.on("request", r => { const url = new URL(r.url()); if (url.port !== String(plainRig.port) && !/^(data|blob):/.test(url.protocol)) faults.push(`asks ${r.url()}`); });
    await page.goto(plainRig.url);
    await use({ page, faults });
  },
});
export { expect };

/** The raster's first pictures are drawn in the plane: until WebGL draws it. */
export const drawn = page => page.waitForFunction(() => { const all = [...document.querySelectorAll("canvas.cells")]; return all.every(c => c.getContext("webgl2")); });
/** Steps on which the raster's pixels are inked, as a share. */
export const ink = page => drawn(page).then(() => page.evaluate(() => {
  const canvas = document.querySelector("canvas.cells"), gl = canvas.getContext("webgl2"), { width, height } = canvas;
  const pixels = new Uint8Array(width * height * 4);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  const paper = Array.from(getComputedStyle(document.querySelector(".panel")).backgroundColor.match(/\d+/g), Number);
  let inked = 0;
  for (let i = 0; i < pixels.length; i += 4) if (Math.abs(pixels[i] - paper[0]) + Math.abs(pixels[i + 1] - paper[1]) + Math.abs(pixels[i + 2] - paper[2]) > 60) inked++;
  return inked / (width * height);
}));
export const known = (page, seconds) => page.waitForFunction(s => { const store = globalThis.betz?.store; return store && (store.end - store.first) * store.shape.stepSeconds >= s; }, seconds);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** What axe finds, in words. By the debugger, not by a script tag: the page's policy forbids those, and is tested. */
export const findings = async page => {
  await page.evaluate(axe);
  return page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations.map(v => `${v.id}: ${v.nodes.map(n => n.html).join(" ").slice(0, 300)}`)));
};
