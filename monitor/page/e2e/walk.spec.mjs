// The page as somebody at a rig uses it: several servers, a phone, a part of a recording, very many channels, and a page
// on which nothing happens.
import { drawn, expect, known, run, shown, start, test } from "./rig.mjs";

const go = (page, hash) => page.evaluate(h => { location.hash = h; }, hash);
const pill = page => page.getByRole("status").first();
const time = page => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")));

test("two servers in one browser, each with its own cookie", async ({ page, context }) => {
  const one = await start("--channels", "16"), two = await start("--channels", "24");
  await page.goto(one.url);
  await known(page, 0.3);
  const other = await context.newPage();
  await other.goto(two.url);
  await known(other, 0.3);
  // The first is still known, without its token.
  await page.goto(`http://127.0.0.1:${one.port}/`);
  await known(page, 0.3);
  expect(await page.evaluate(() => globalThis.betz.store.shape.channels)).toBe(16);
  expect(await other.evaluate(() => globalThis.betz.store.shape.channels)).toBe(24);
  await Promise.all([one.stop(), two.stop()]);
});

test("the first view asks for each thing once, in no more than 75 kB on the wire", async ({ page, rig }) => {
  const asked = [];
  let bytes = 0;
  page.on("response", async answer => { asked.push(new URL(answer.url()).pathname); });
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const files = new Set();
  session.on("Network.responseReceived", ({ requestId, response }) => { if (/\/(|begin\.js|app\.js|shared\.js|app\.css)$/.test(new URL(response.url).pathname)) files.add(requestId); });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => { if (files.has(requestId)) bytes += encodedDataLength; });
  await page.goto(rig.url);
  await known(page, 1);
  expect(asked.filter(path => path === "/api/state")).toHaveLength(1);
  for (const path of ["/begin.js", "/app.js", "/shared.js", "/app.css"]) expect(asked.filter(p => p === path)).toHaveLength(1);
  expect(bytes).toBeGreaterThan(30_000);
  expect(bytes).toBeLessThan(75_000);
});

test("in a session's first seconds no axis has a time before its start", async ({ page, rig }) => {
  await page.addInitScript(() => {
    const { fillText } = CanvasRenderingContext2D.prototype, all = globalThis.labels = new Set();
    CanvasRenderingContext2D.prototype.fillText = function (words, ...more) { all.add(words); return fillText.call(this, words, ...more); };
  });
  await page.goto(rig.url);
  // Half of the minute lies before the start.
  await page.evaluate(() => { location.hash = "#v=live&w=60"; });
  await known(page, 2);
  const times = async () => (await page.evaluate(() => [...globalThis.labels])).filter(l => / s$/.test(l) && !l.includes("spikes"));
  await expect.poll(times).toContain("0 s");
  expect((await times()).filter(l => !/^\d/.test(l))).toEqual([]);
});

test("Space after a click on a tab pauses", async ({ watched: { page } }) => {
  await known(page, 2);
  await page.getByRole("link", { name: "Channels" }).click();
  await page.getByRole("link", { name: "Live", exact: true }).click();
  await page.keyboard.press("Space");
  await expect(pill(page)).toHaveText("paused");
});

shown("a drag moves the view and picks no channel; a click picks one", async ({ reached: { page } }) => {
  const box = await page.locator(".hand").boundingBox(), before = await time(page);
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.5);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.2, box.y + box.height * 0.6, { steps: 6 });
  await page.mouse.up();
  // Three tenths of a window of 5 s.
  await expect.poll(() => time(page)).toBeCloseTo(before + 1.5, 1);
  expect(await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("c"))).toBe(null);
  await page.mouse.click(box.x + box.width * 0.5, box.y + box.height * 0.5);
  await expect.poll(() => page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("c"))).not.toBe(null);
});

shown("on a phone the raster is high enough, and one finger moves it", async ({ browser, reachRig }) => {
  const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }), page = await context.newPage();
  await page.goto(reachRig.url);
  await page.goto(new URL("/#v=live&s=1&t=60&w=5", reachRig.url).href);
  await page.reload();
  await page.waitForFunction(() => globalThis.betz?.store?.spikes > 100);
  const hand = page.locator(".hand");
  await hand.scrollIntoViewIfNeeded();
  const box = await hand.boundingBox();
  expect(box.height).toBeGreaterThan(200);
  expect(box.width).toBeGreaterThan(250);
  const session = await context.newCDPSession(page), touch = (type, x) => session.send("Input.dispatchTouchEvent", { type, touchPoints: type === "touchEnd" ? [] : [{ x: box.x + x, y: box.y + 80 }] });
  await touch("touchStart", 250);
  for (const x of [230, 200, 160, 120]) await touch("touchMove", x);
  await touch("touchEnd", 120);
  await expect.poll(() => time(page)).toBeGreaterThan(60.5);
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
  await context.close();
});

shown("a part of a recording opens at its first data; the rest is hatched and not counted", async ({ page }) => {
  const rig = await run(process.env.BETZ_SHOWN, ["--reaches", "--late"]);
  await page.goto(rig.url);
  await page.goto(new URL("/#v=live&s=1", rig.url).href);
  await page.reload();
  await page.waitForFunction(() => globalThis.betz?.store?.shape.channels === 32 && globalThis.betz.store.spikes > 100);
  // A window that begins with the first step that is shown.
  await expect.poll(() => page.evaluate(() => { const p = new URLSearchParams(location.hash.slice(1)); return Number(p.get("t")) - Number(p.get("w") ?? 10); })).toBeCloseTo(80, 1);
  // A view across the edge: rates of the channels are those of a plain loop over what is shown.
  await go(page, "#v=channels&s=1&t=85&w=10");
  await expect(page.locator(".panel.table tbody tr").first()).toBeVisible();
  const rates = await page.evaluate(() => {
    const s = globalThis.betz.store, n = new Array(32).fill(0);
    for (let i = 0; i < s.spikes; i++) if (s.when(i) * 0.005 >= 80 && s.when(i) * 0.005 < 85) n[s.channel[i]] += s.weight[i];
    return n.map(k => (k / 5).toFixed(1));
  });
  await expect.poll(() => page.locator(".panel.table tbody tr").evaluateAll(rows => rows.slice(0, 8).map(r => [r.querySelector("th").textContent.trim(), r.querySelector("td").textContent.trim()]))).toEqual(
    await page.evaluate(async r => (await (await fetch("/api/state?source=1")).json()).source.channel_names.slice(0, 8).map((name, c) => [name, r[c]]), rates));
  await go(page, "#v=live&s=1&t=85&w=10");
  await expect(page.locator(".raster .note")).toContainText("hatched: 5.0 s left out as asked");
  await rig.stop();
});

shown("a link without a time leaves a recording where it is; a share of intervals is a number or a dash", async ({ reached: { page } }) => {
  await go(page, "#v=channels&s=1&t=60");
  await expect(page.locator(".panel.table .note")).toContainText("to 1:00.0");
  await go(page, "#v=channels&s=1&w=5");
  await expect(page.locator(".panel.table .note")).toContainText("0:55.0 to 1:00.0");
  // Share of intervals of at most 1 ms, of a plain loop over the spikes; a dash where a channel has fewer than two.
  for (const from of [55, 59.9]) {
    await go(page, `#v=channels&s=1&w=${Number((60 - from).toFixed(1))}`);
    const expected = await page.evaluate(from => {
      const s = globalThis.betz.store, last = new Map(), all = Array.from({ length: 32 }, () => [0, 0]);
      for (let i = 0; i < s.spikes; i++) {
        const t = s.when(i) * 0.005, c = s.channel[i];
        if (t < from || t >= 60) continue;
        if (last.has(c)) { all[c][1]++; if (t - last.get(c) <= 1e-3 + 1e-9) all[c][0]++; }
        last.set(c, t);
      }
      return all.map(([short, n]) => n === 0 ? "–" : `${(short / n * 100).toFixed(1)} %`);
    }, from);
    if (from > 59) expect(expected.slice(0, 8)).toContain("–");
    await expect.poll(() => page.locator(".panel.table tbody tr").evaluateAll(rows => rows.slice(0, 8).map(r => r.querySelectorAll("td")[2].textContent))).toEqual(expected.slice(0, 8));
  }
});

shown("the raster stands where its axis says, also after a drag", async ({ reached: { page } }) => {
  await page.evaluate(() => { location.hash = "#v=live&s=1&t=60&w=5"; });
  await drawn(page);
  // Ink of every fiftieth of the picture against the spikes of every tenth of a second, which the axis' clock names.
  const matches = () => page.evaluate(() => {
    const canvas = document.querySelector("canvas.cells"), gl = canvas.getContext("webgl2"), { width, height } = canvas, pixels = new Uint8Array(width * height * 4), s = globalThis.betz.store, parts = 50;
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    const t = Number(new URLSearchParams(location.hash.slice(1)).get("t")), paper = Array.from(getComputedStyle(document.querySelector(".panel")).backgroundColor.match(/\d+/g), Number), ink = new Float64Array(parts), spikes = new Float64Array(parts);
    for (let i = 0; i < width * height; i++) ink[Math.floor(i % width / width * parts)] += Math.abs(pixels[4 * i] - paper[0]);
    for (let i = 0; i < s.spikes; i++) { const at = Math.floor((s.when(i) * 0.005 - t + 5) / 5 * parts); if (at >= 0 && at < parts) spikes[at]++; }
    const like = lag => { let [n, a, b, ab, aa, bb] = [0, 0, 0, 0, 0, 0]; for (let i = 5; i < parts - 5; i++) { const x = ink[i + lag], y = spikes[i]; n++; a += x; b += y; ab += x * y; aa += x * x; bb += y * y; } return (ab - a * b / n) / Math.sqrt((aa - a * a / n) * (bb - b * b / n)); };
    return [-3, -2, -1, 0, 1, 2, 3].map(like);
  });
  const best = async () => { const all = await matches(); return all.indexOf(Math.max(...all)) - 3; };
  await expect.poll(best).toBe(0);
  const box = await page.locator(".hand").boundingBox();
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 40, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect.poll(() => time(page)).toBeGreaterThan(61);
  await expect.poll(best).toBe(0);
});

/** Waits until nothing is drawn, of either kind, for a second and a half: longer than it takes what is told once per second. */
const still = (page, what = "at rest") => page.evaluate(what => new Promise((done, failed) => {
  let n = 0, quiet = 0;
  // A frame that is asked for counts, too: the browser composes the page for it.
  const of = [[globalThis, "requestAnimationFrame"], [CanvasRenderingContext2D.prototype, "clearRect"], [WebGL2RenderingContext.prototype, "drawArrays"], [WebGL2RenderingContext.prototype, "clear"]].map(([on, name]) => [on, name, on[name]]);
  const end = error => { clearTimeout(quiet); clearTimeout(late); for (const [on, name, own] of of) on[name] = own; if (error) failed(error); else done(); };
  const wait = () => { clearTimeout(quiet); quiet = setTimeout(() => end(), 1500); };
  const late = setTimeout(() => end(new Error(`${what}: ${n} calls that draw in 30 s, and no second and a half without one`)), 30_000);
  for (const [on, name, own] of of) on[name] = function (...all) { n++; wait(); return own.apply(this ?? globalThis, all); };
  wait();
}), what);
shown("nothing is drawn, and no frame asked for, where nothing changes", async ({ reached: { page }, reachRig, plainRig, context }) => {
  // A page for each view: they come to rest at the same time.
  const rest = (rig, there, hashes) => Promise.all(hashes.map(async hash => {
    const own = await context.newPage();
    await own.goto(new URL(`/${hash}`, rig.url).href);
    await own.waitForFunction(there);
    await still(own, hash);
    await own.close();
  }));
  await rest(reachRig, () => globalThis.betz?.store?.spikes > 100, ["#v=live&s=1&t=60&w=5", "#v=channels&s=1&t=60&c=3", "#v=trials&s=1&c=3", "#v=model&s=1"]);
  // What changes wakes it: the pointer's line, a key, and playing.
  await go(page, "#v=live&s=1&t=60&w=5");
  await still(page);
  const box = await page.locator(".hand").boundingBox();
  await page.mouse.move(box.x + 100, box.y + 60);
  await expect(page.locator(".cursor:visible")).toHaveCount(5);
  await page.mouse.move(box.x, box.y - 200);
  await still(page);
  await page.keyboard.press("Shift+ArrowRight");
  await expect(page.locator(".clock")).toHaveText("1:05.0");
  await still(page);
  await page.keyboard.press("Space");
  await expect.poll(() => time(page)).toBeGreaterThan(66);
  await page.goto(plainRig.url);
  await rest(plainRig, () => document.querySelector("main canvas"), ["#v=networks&n=0,1&t=31&node=8", "#v=episodes&ep=0.0&w=2&t=20", "#v=map&cell=40"]);
});

test.describe("16,384 channels", () => {
  test.use({ args: ["--channels", "16384", "--rate", "4", "--speed", "0.5"] });
  test("the raster says how many channels share a row, and no bar exceeds the busiest bin", async ({ watched: { page, faults } }) => {
    await known(page, 3);
    await expect(page.locator(".raster .note")).toContainText(/all 16,384 channels · about \d+ per row/);
    await page.keyboard.press("Space");
    await expect(pill(page)).toHaveText("paused");
    // The foot writes its scale into the picture; drawn anew, it is heard.
    await page.evaluate(() => { const own = CanvasRenderingContext2D.prototype.fillText; CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { const found = /^most ([\d,]+) spikes\/s in ([\d.]+) ms/.exec(text); if (found) globalThis.scale = [Number(found[1].replaceAll(",", "")), Number(found[2])]; return own.call(this, text, ...rest); }; });
    await page.keyboard.press("-");
    const [rate, wide] = await page.waitForFunction(() => globalThis.scale).then(s => s.jsonValue());
    // The most of any whole bar of as many steps, by a plain loop over the steps.
    const most = await page.evaluate(per => {
      const s = globalThis.betz.store, sums = new Map();
      for (let i = 0; i < s.spikes; i++) { const bar = Math.floor(s.tick[i] / per); sums.set(bar, (sums.get(bar) ?? 0) + s.weight[i]); }
      return Math.max(...sums.values());
    }, wide);
    expect(rate * wide / 1e3).toBeGreaterThan(most / 2);
    expect(rate * wide / 1e3).toBeLessThanOrEqual(most + wide / 1e3);
    await go(page, "#v=channels");
    await expect(page.locator(".panel.table")).toContainText("16,384");
    expect(faults).toEqual([]);
  });
});
