// The figures of benches/record/page.md: node figures.mjs [stream|stall|script|own|draw|heap|first|history|still|graph]…, all of them by
// default. Needs Linux (CPU times are read from /proc), Chromium, and the examples `watched` and `shown`. CPU times and
// counts do not depend on what else the machine does; times by the clock do, so its load is printed with them.
import { readFileSync, readdirSync } from "node:fs";
import { createServer, request } from "node:http";
import { loadavg } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";

const here = dirname(fileURLToPath(import.meta.url));
process.env.BETZ_WATCHED ??= join(here, "../../target/debug/examples/watched");
process.env.BETZ_SHOWN ??= join(here, "../../target/debug/examples/shown");
const { run, start } = await import("./e2e/rig.mjs");
const SHAPES = [["--channels", "1024", "--rate", "20"], ["--channels", "16384", "--rate", "17"]];
const sleep = ms => new Promise(done => setTimeout(done, ms));
const median = all => [...all].sort((a, b) => a - b)[all.length >> 1];
const say = (what, ...words) => console.log(`${what.padEnd(8)} ${words.join(" ")} (load ${loadavg()[0].toFixed(1)})`);

/** CPU milliseconds so far of a process's threads with such names; all, without names. */
function cpu(pid, names) {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) try {
    const name = readFileSync(`/proc/${pid}/task/${thread}/comm`, "utf8").trim();
    if (!names || names.includes(name)) ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  } catch { /* It ended meanwhile. */ }
  return ns / 1e6;
}

/** A viewer without a browser: counts bytes, messages, frames and ticks, and says that all was drawn, where `draws`. */
async function viewer(rig) {
  const url = new URL(rig.url), seen = { bytes: 0, messages: 0, frames: 0, ticks: 0, lost: 0, newest: 0, draws: true, end: () => socket.destroy(), drawn: n => socket.write(Buffer.from([0x82, 0x84, 0, 0, 0, 0, n, 0, 0, 0])) };
  const socket = await new Promise((done, failed) => {
    const asked = request({ host: url.hostname, port: url.port, path: "/live", headers: { Host: url.host, Origin: url.origin, Cookie: `betz-${url.port}=${url.searchParams.get("token")}`, Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "betz.v1" } });
    asked.on("upgrade", (_, socket, head) => { socket.unshift(head); done(socket); }).on("error", failed).on("response", r => failed(new Error(`expected an upgrade, got ${r.statusCode}`))).end();
  });
  let held = Buffer.alloc(0), sequence = -1;
  socket.on("error", () => undefined).on("data", data => {
    held = held.length > 0 ? Buffer.concat([held, data]) : data;
    for (;;) {
      if (held.length < 2) return;
      let n = held[1] & 127, at = 2;
      if (n === 126) { if (held.length < 4) return; n = held.readUInt16BE(2); at = 4; } else if (n === 127) { if (held.length < 10) return; n = Number(held.readBigUInt64BE(2)); at = 10; }
      if (held.length < at + n) return;
      const message = held.subarray(at, at + n);
      held = held.subarray(at + n);
      seen.bytes += n; seen.messages++;
      for (let f = 0; f + 32 <= message.length;) {
        const next = message.readUInt32LE(f + 8);
        if (sequence >= 0) seen.lost += next - sequence - 1;
        sequence = next; seen.frames++;
        if (message.readUInt16LE(f + 6) === 1) { seen.ticks += message.readUInt32LE(f + 24); seen.newest = Number(message.readBigInt64LE(f + 16)) + message.readUInt32LE(f + 24); }
        let s = f + 32;
        for (let left = message.readUInt32LE(f + 28); left > 0; left--) s += 8 + Math.ceil(message.readUInt16LE(s + 2) * message.readUInt32LE(s + 4) / 8) * 8;
        f = s;
      }
      if (seen.draws) seen.drawn(1);
    }
  });
  return seen;
}

const figures = {
  async stream() {
    for (const shape of SHAPES) {
      const rig = await start(...shape), threads = ["betz-page", "betz-hub"], took = [];
      const first = await viewer(rig);
      await sleep(2000);
      // In turns: one viewer and nine, so that what the machine does besides falls on both.
      for (let turn = 0; turn < 6; turn++) {
        const more = turn % 2 === 1 ? await Promise.all(Array.from({ length: 8 }, () => viewer(rig))) : [];
        const before = { ...first, cpu: cpu(rig.pid, threads) };
        await sleep(4000);
        const seconds = (first.ticks - before.ticks) / 1000;
        took.push({ more: more.length, kib: (first.bytes - before.bytes) / 1024 / seconds, frames: (first.frames - before.frames) / seconds, share: (cpu(rig.pid, threads) - before.cpu) / seconds / 10 });
        more.forEach(v => v.end());
        await sleep(300);
      }
      const of = (key, more) => median(took.filter(t => t.more === more).map(t => t[key]));
      say("stream", shape.join(" ") + ":", `${of("kib", 0).toFixed(0)} KiB a second of the session in ${of("frames", 0).toFixed(0)} frames, ${first.lost} lost; hub and server ${of("share", 0).toFixed(2)} % of a core with one viewer, ${((of("share", 8) - of("share", 0)) / 8).toFixed(2)} % more a viewer`);
      first.end();
      await rig.stop();
    }
  },
  async stall() {
    for (const seconds of [1.5, 8]) {
      const rig = await start(...SHAPES[1]), v = await viewer(rig);
      await sleep(2000);
      v.draws = false;
      const at = v.messages, lost = v.lost;
      await sleep(seconds * 1000);
      const flight = v.messages - at, stood = v.newest;
      v.draws = true; v.drawn(flight);
      await sleep(1500);
      say("stall", `${seconds} s at 16,384 channels: ${flight} messages on their way, ${v.lost - lost} frames lost and counted by their numbers; the page went on ${((v.newest - stood) / 1000).toFixed(1)} s later`);
      v.end();
      await rig.stop();
    }
  },
  // A frame's JavaScript, and how much of it passes within calls of WebGL and of the plane: software drawing makes those wait.
  async script() {
    for (const shape of SHAPES) await browse(shape, async ({ page }) => {
      await page.waitForFunction(() => globalThis.betz?.store?.end - globalThis.betz?.store?.first > 12_000, null, { timeout: 120_000 });
      await page.evaluate(() => { globalThis.pictures = []; });
      await page.waitForFunction(() => globalThis.pictures.length >= 40, null, { timeout: 120_000 });
      const all = await page.evaluate(() => globalThis.pictures), own = all.map(f => f.all - f.drawing), calls = {};
      for (const f of all) for (const [name, ms] of Object.entries(f.calls)) calls[name] = (calls[name] ?? 0) + ms / all.length;
      const most = Object.entries(calls).sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, ms]) => `${name} ${ms.toFixed(2)}`).join(", ");
      say("script", shape.join(" ") + ":", `a frame ${median(all.map(f => f.all)).toFixed(2)} ms, without calls that draw ${median(own).toFixed(2)} ms (least ${Math.min(...own).toFixed(2)}), medians of ${all.length}; calls, mean: ${most} ms`);
    }, () => {
      let drawing = 0, calls = {};
      for (const kind of [WebGL2RenderingContext, CanvasRenderingContext2D]) for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(kind.prototype))) if (typeof value === "function") {
        kind.prototype[name] = function (...args) { const began = performance.now(); try { return value.apply(this, args); } finally { const ms = performance.now() - began; drawing += ms; calls[name] = (calls[name] ?? 0) + ms; } };
      }
      // The page's own frame loop is the one that counts what it spent.
      const ask = globalThis.requestAnimationFrame;
      globalThis.requestAnimationFrame = work => ask(now => {
        const before = globalThis.betz?.spent?.slice(), began = performance.now();
        drawing = 0; calls = {};
        work(now);
        const spent = globalThis.betz?.spent;
        if (before && spent?.some((v, k) => v !== before[k] && v === v)) globalThis.pictures?.push({ all: performance.now() - began, drawing, calls });
      });
    });
  },
  // The same with the calls that draw put aside: pictures come as often as the browser asks, and what is left is the page's own.
  async own() {
    for (const shape of SHAPES) await browse(shape, async ({ page }) => {
      await page.waitForFunction(() => globalThis.betz?.store?.end - globalThis.betz?.store?.first > 12_000, null, { timeout: 120_000 });
      await page.evaluate(() => globalThis.betz.spent.fill(NaN));
      await page.waitForFunction(() => globalThis.betz.spent.filter(v => v === v).length >= 120, null, { timeout: 120_000 });
      const all = await page.evaluate(() => Array.from(globalThis.betz.spent).filter(v => v === v));
      say("own", shape.join(" ") + ":", `a frame ${median(all).toFixed(2)} ms, median of ${all.length}, mean ${(all.reduce((a, b) => a + b, 0) / all.length).toFixed(2)}`);
    }, () => {
      for (const [kind, calls] of [[WebGL2RenderingContext, ["drawArrays", "clear", "bufferSubData", "bufferData", "texSubImage2D", "texImage2D"]], [CanvasRenderingContext2D, ["fill", "stroke", "fillRect", "clearRect", "fillText", "drawImage", "putImageData"]]]) for (const name of calls) kind.prototype[name] = () => undefined;
    });
  },
  async draw() {
    for (const shape of SHAPES) await browse(shape, async ({ page, gpu }) => {
      await page.waitForFunction(() => globalThis.betz?.store?.end - globalThis.betz?.store?.first > 12_000, null, { timeout: 120_000 });
      await page.evaluate(() => globalThis.betz.spent.fill(NaN));
      await page.waitForFunction(() => globalThis.betz.spent.filter(v => v === v).length >= 60, null, { timeout: 120_000 });
      const script = await page.evaluate(() => Array.from(globalThis.betz.spent).filter(v => v === v));
      // Still, so that the GPU process draws this alone; then the picture's one triangle again and again, in turns
      // with as many reads of a pixel and no draw.
      await page.keyboard.press("Space");
      await sleep(1500);
      const again = n => page.evaluate(n => { const c = document.querySelector("canvas.cells"), gl = c.getContext("webgl2"), one = new Uint8Array(4); for (let k = 0; k < 24; k++) { for (let d = 0; d < n; d++) gl.drawArrays(gl.TRIANGLES, 0, 3); gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, one); } return [c.width, c.height]; }, n);
      const took = { 0: [], 1: [], 5: [] };
      let size;
      for (let turn = 0; turn < 12; turn++) { const n = [0, 1, 5][turn % 3], before = gpu(); size = await again(n); took[n].push((gpu() - before) / 24); }
      say("draw", shape.join(" ") + ":", `raster of ${size.join(" × ")} pixels ${((median(took[5]) - median(took[1])) / 4).toFixed(1)} CPU ms a draw in the GPU process; JavaScript of a page's frame ${median(script).toFixed(2)} ms (median of ${script.length}, least ${Math.min(...script).toFixed(2)})`);
    });
  },
  async heap() {
    await browse(["--channels", "1024", "--rate", "20", "--speed", "10"], async ({ page, session }) => {
      const seconds = () => page.evaluate(() => (globalThis.betz?.store?.end ?? 0) / 1000), used = [];
      for (let minute = 1; minute <= 10; minute++) {
        while (await seconds() < minute * 60) await sleep(250);
        for (let k = 0; k < 3; k++) await session.send("HeapProfiler.collectGarbage");
        // Objects, and what typed arrays hold.
        const { usedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
        used.push((usedSize + backingStorageSize) / 2 ** 20);
      }
      // The first two minutes fill what is kept of a minute.
      const late = used.slice(2);
      say("heap", `MB after each of ten minutes of the session at 10 × speed: ${used.map(v => v.toFixed(1)).join(" ")}; from the third on ± ${((Math.max(...late) - Math.min(...late)) / 2 / median(late) * 100).toFixed(1)} %`);
    });
  },
  // Not among the defaults: BETZ_SOAK_HOURS, 24 unless it says otherwise, of a session at BETZ_SOAK_SPEED times the wall's speed (1). Fails where the
  // heap is not flat or a frame was skipped.
  async soak() {
    const hours = Number(process.env.BETZ_SOAK_HOURS ?? 24);
    if (!(hours > 0)) throw new Error(`BETZ_SOAK_HOURS: expected hours above 0, got ${process.env.BETZ_SOAK_HOURS}`);
    await browse(["--channels", "1024", "--rate", "20", "--speed", process.env.BETZ_SOAK_SPEED ?? "1"], async ({ page, session, server }) => {
      const held = [], now = () => page.evaluate(() => ({ seconds: (globalThis.betz?.store?.end ?? 0) / 1000, skipped: globalThis.betz?.link?.skipped ?? 0 })), used = [], end = hours * 3600, every = Math.max(10, end / 100);
      // The first two minutes fill what is kept of a minute.
      for (let due = Math.min(120, end / 2); due <= end; due += every) {
        while ((await now()).seconds < due) await sleep(500);
        for (let k = 0; k < 3; k++) await session.send("HeapProfiler.collectGarbage");
        const { usedSize, backingStorageSize } = await session.send("Runtime.getHeapUsage");
        used.push((usedSize + backingStorageSize) / 2 ** 20);
        held.push(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server}/status`, "utf8"))[1]) / 1024);
      }
      const apart = (Math.max(...used) - Math.min(...used)) / 2 / median(used) * 100, { skipped } = await now();
      say("soak", `of ${hours} h: heap ${Math.min(...used).toFixed(1)} to ${Math.max(...used).toFixed(1)} MB in ${used.length} readings, ± ${apart.toFixed(1)} %; the server's memory ${Math.min(...held).toFixed(1)} to ${Math.max(...held).toFixed(1)} MB; ${skipped} frames skipped`);
      if (apart > 5 || skipped > 0) process.exitCode = 1;
    });
  },
  // In turns with a page that has but a canvas and a script of one line: what the browser takes by itself.
  async first() {
    const rig = await start("--channels", "1024"), took = { session: [], empty: [] };
    const empty = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end("<!doctype html><canvas></canvas><script>requestAnimationFrame(() => requestAnimationFrame(() => { globalThis.firstFrame = performance.now(); }))</script>")).listen(0, "127.0.0.1");
    const browser = await launch();
    for (let turn = 0; turn < 7; turn++) for (const kind of ["empty", "session"]) {
      const page = await browser.newPage({ viewport: { width: 1400, height: 860 } });
      // The raster was drawn with spikes in it, by WebGL or in the plane, and the browser comes back for the next picture.
      if (kind === "session") await page.addInitScript(() => {
        for (const [kind, what] of [[WebGL2RenderingContext, "drawArrays"], [CanvasRenderingContext2D, "putImageData"]]) {
          const draw = kind.prototype[what];
          kind.prototype[what] = function (...args) {
            draw.apply(this, args);
            if (!globalThis.drawn && this.canvas.className === "cells" && globalThis.betz.store.spikes > 0) { globalThis.drawn = true; requestAnimationFrame(() => { globalThis.firstFrame = performance.now(); }); }
          };
        }
      });
      await page.goto(kind === "session" ? rig.url : `http://127.0.0.1:${empty.address().port}/`);
      took[kind].push(await (await page.waitForFunction(() => globalThis.firstFrame)).jsonValue());
      await page.close();
    }
    await browser.close(); await rig.stop(); empty.close();
    const of = kind => `median ${median(took[kind]).toFixed(0)}, least ${Math.min(...took[kind]).toFixed(0)} ms`;
    say("first", `frame after the page is asked for, of seven: ${of("session")}; an empty page ${of("empty")}`);
  },
  // A page that is opened when a session of 1,024 channels has run for an hour: how long until all of the hour is on its timeline, and how much of the
  // page's memory the hour takes. The server's answer is made of one of its own seconds: 600 of one second, and 300 of ten.
  async history() {
    const rig = await start("--channels", "1024", "--rate", "20"), browser = await launch(), all = [], used = { without: [], hour: [] };
    let bytes = 0, told;
    await sleep(4000);
    for (let turn = 0; turn < 6; turn++) {
      const hour = turn % 2 === 1, page = await browser.newPage({ viewport: { width: 1400, height: 860 } }), session = await page.context().newCDPSession(page);
      await page.route("**/api/history", async route => {
        told ??= await (await route.fetch()).json();
        const one = told.slots.at(-1), slots = [];
        if (hour) for (let at = 0; at < 3600;) { const seconds = at < 3000 ? 10 : 1; slots.push({ ...one, at, seconds, steps: one.steps * seconds, spikes: one.spikes * seconds, silent: Array.from({ length: 20 }, (_, k) => k * 7), noisy: [20] }); at += seconds; }
        const text = JSON.stringify({ ...told, slots: hour ? slots : told.slots });
        bytes = Math.max(bytes, text.length);
        await route.fulfill({ contentType: "application/json", body: text });
      });
      const began = performance.now();
      await page.goto(rig.url);
      if (hour) { await page.waitForFunction(() => (globalThis.betz?.store?.seconds.length ?? 0) >= 3600 && globalThis.betz.store.spikes > 0); all.push(performance.now() - began); } else await page.waitForFunction(() => globalThis.betz?.store?.spikes > 0);
      await sleep(1500);
      for (let k = 0; k < 3; k++) await session.send("HeapProfiler.collectGarbage");
      const { usedSize } = await session.send("Runtime.getHeapUsage");
      used[hour ? "hour" : "without"].push(usedSize / 1e6);
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.close();
    }
    await browser.close(); await rig.stop();
    say("history", `of an hour, 1,024 channels: complete ${median(all).toFixed(0)} ms after the page is asked for, of ${all.length}, the least ${Math.min(...all).toFixed(0)} ms; ${(bytes / 1e3).toFixed(0)} kB as JSON; objects of the page ${median(used.hour).toFixed(2)} MB, without the hour ${median(used.without).toFixed(2)} MB`);
  },
  // A page on which nothing changes, fifteen seconds after it was drawn: CPU time of the process that draws, in ten seconds.
  async still() {
    const rig = await run(process.env.BETZ_SHOWN, ["--reaches"]), browser = await launch(), page = await browser.newPage({ viewport: { width: 1400, height: 860 } }), root = await browser.newBrowserCDPSession();
    await page.goto(rig.url);
    const { processInfo } = await root.send("SystemInfo.getProcessInfo"), gpu = processInfo.find(p => p.type === "GPU"), renderers = processInfo.filter(p => p.type === "renderer");
    for (const hash of ["#v=live&s=1&t=60&w=5", "#v=channels&s=1&t=60", "#v=trials&s=1&c=3", "#v=networks&n=0,1&t=31", "#v=map&cell=40"]) {
      await page.evaluate(h => { location.hash = h; }, hash);
      await sleep(15_000);
      const before = [cpu(gpu.id), ...renderers.map(p => cpu(p.id))], began = performance.now();
      await sleep(10_000);
      const seconds = (performance.now() - began) / 1000, after = [cpu(gpu.id), ...renderers.map(p => cpu(p.id))], [drawing, ...script] = after.map((v, k) => (v - before[k]) / seconds / 10);
      say("still", `${hash}: ${drawing.toFixed(2)} % of a core in the GPU process, ${script.reduce((a, b) => a + b, 0).toFixed(2)} % in the page's`);
    }
    await browser.close(); await rig.stop();
  },
  // All edges above the threshold and all drawn; then thresholds to and fro. A draw is what GraphView.draw takes; a move all of the page's script, by
  // the browser's own count, from the threshold to the picture, less as long a time without one.
  async graph() {
    const rig = await run(process.env.BETZ_SHOWN, ["--nodes", "20000"]), browser = await launch(), page = await browser.newPage({ viewport: { width: 1400, height: 860 } }), session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    const script = async () => (await session.send("Performance.getMetrics")).metrics.find(m => m.name === "ScriptDuration").value * 1e3;
    await page.goto(rig.url);
    await page.evaluate(() => { location.hash = "#v=networks&n=2"; });
    await page.waitForFunction(() => globalThis.betzNet?.spent.edges > 0, null, { timeout: 120_000 });
    const asked = [], drawn = () => page.evaluate(() => ({ ...globalThis.betzNet.spent })), draws = [], moves = [], idle = [];
    page.on("request", r => asked.push(r.url()));
    /** To a threshold of which so many edges stay; answers when the picture has them all, which software draws in seconds. */
    const to = async edges => {
      const n = await page.evaluate(n => { const { net } = globalThis.betzNet, l = net.first.value, e = net.edgesOf(l); net.setThreshold(e.key[Math.min(n, e.key.length) - 1]); return net.counted(l); }, edges);
      await page.waitForFunction(n => globalThis.betzNet.spent.edges === n && globalThis.betzNet.spent.drawn === n, n, { timeout: 120_000, polling: 100 });
    };
    await to(Infinity);
    const { edges, filled } = await drawn();
    for (let k = 0; k < 10; k++) {
      const before = await script(), began = performance.now();
      await to(k % 2 === 0 ? edges - 2000 : edges);
      const now = await drawn(), wall = performance.now() - began;
      draws.push(now.ms);
      moves.push(await script() - before);
      const still = await script();
      await page.waitForFunction(() => false, null, { timeout: wall, polling: 100 }).catch(() => undefined);
      idle.push(await script() - still);
    }
    say("graph", `of 20,000 nodes, ${edges} edges: JavaScript of a draw ${median(draws).toFixed(2)} ms (median of ${draws.length}, most ${Math.max(...draws).toFixed(2)}); of all that the page does for a move of the threshold ${(median(moves) - median(idle)).toFixed(1)} ms; buffers filled once in ${filled.toFixed(1)} ms; ${asked.length} requests`);
    await browser.close(); await rig.stop();
  },
};

const launch = () => chromium.launch({ executablePath: process.env.BETZ_CHROMIUM ?? "/usr/bin/chromium", args: ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"] });
async function browse(shape, work, before) {
  const rig = await start(...shape), browser = await launch(), page = await browser.newPage({ viewport: { width: 1400, height: 860 } }), session = await page.context().newCDPSession(page), root = await browser.newBrowserCDPSession();
  await session.send("Performance.enable");
  if (before) await page.addInitScript(before);
  const { processInfo } = await root.send("SystemInfo.getProcessInfo"), process = processInfo.find(p => p.type === "GPU");
  await page.goto(rig.url);
  await work({ page, session, server: rig.pid, gpu: () => cpu(process.id) });
  await browser.close(); await rig.stop();
}

for (const what of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(figures).filter(f => f !== "soak")) {
  if (!figures[what]) { console.error(`expected some of ${Object.keys(figures).join(", ")}, got ${what}`); process.exit(2); }
  await figures[what]();
}
process.exit();
