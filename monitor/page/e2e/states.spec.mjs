// Every state that a page can be in, as it says it: what comes is put in place of the server's where a server would not say it.
import { drawn, expect, ink, known, start, test } from "./rig.mjs";

const pill = page => page.getByRole("status").first();
/** The server's answers, changed before the page has them. */
const told = (page, change) => page.route("**/api/state?*", async route => { const answer = await route.fetch(); await route.fulfill({ response: answer, json: change(await answer.json()) }); });
/** What comes over the connection, changed; null: nothing. */
const through = (page, change) => page.routeWebSocket(/\/live$/, socket => {
  const server = socket.connectToServer();
  server.onMessage(message => { const next = change(Buffer.from(message)); if (next) socket.send(next); else server.send(Buffer.from([1, 0, 0, 0])); });
});

test("no session yet: it says how one comes", async ({ page, rig }) => {
  await through(page, () => null);
  await page.goto(rig.url);
  await expect(pill(page)).toHaveText("no session yet");
  await expect(page.locator(".waiting")).toContainText("Waiting for steps");
});

test("frames of another version: it asks to be loaded anew, and does not go on asking", async ({ page, rig }) => {
  let connections = 0;
  page.on("websocket", () => { connections++; });
  await through(page, bytes => { bytes.writeUInt16LE(2, 4); return bytes; });
  await page.goto(rig.url);
  await expect(pill(page)).toHaveText("newer server: reload the page");
  await page.waitForTimeout(1200);
  expect(connections).toBeLessThanOrEqual(1);
});

test("behind: frames that wait on their way are told as seconds, until they come at once again", async ({ page, rig }) => {
  let late = false;
  const held = [];
  await page.routeWebSocket(/\/live$/, socket => {
    const server = socket.connectToServer();
    // What comes is held for a while; the order stays.
    server.onMessage(message => { held.push({ message, due: performance.now() + (late ? 900 : 0) }); });
    const timer = setInterval(() => { while (held.length > 0 && (held[0].due <= performance.now() || !late)) socket.send(held.shift().message); }, 5);
    socket.onClose(() => clearInterval(timer));
  });
  await page.goto(rig.url);
  await expect(pill(page)).toHaveText("live");
  late = true;
  await expect(pill(page)).toHaveText(/^behind \d+\.\d s$/);
  late = false;
  await expect(pill(page)).toHaveText("live");
});

test("another session: what was is not its past", async ({ page, rig }) => {
  let epoch = "one";
  await told(page, state => ({ ...state, epoch }));
  await page.goto(rig.url);
  await known(page, 1);
  await page.evaluate(() => { globalThis.before = globalThis.betz.store; });
  epoch = "two";
  // Whatever makes the page look again does.
  await page.evaluate(() => globalThis.betz.link.socket.close());
  await page.waitForFunction(() => globalThis.betz.store && globalThis.betz.store !== globalThis.before);
});

test("a session that has ended: what is kept of it is shown", async ({ page }) => {
  const rig = await start("--channels", "64", "--seconds", "2", "--stay");
  await page.goto(rig.url);
  await expect(pill(page)).toHaveText("session stopped");
  await page.reload();
  await expect(pill(page)).toHaveText("session stopped");
  await page.waitForFunction(() => globalThis.betz.store?.spikes > 0);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.005);
  // What stands still is not drawn again.
  const draws = () => page.evaluate(() => new Promise(done => { let n = 0; const all = CanvasRenderingContext2D.prototype, clear = all.clearRect; all.clearRect = function (...a) { n++; return clear.apply(this, a); }; setTimeout(() => { all.clearRect = clear; done(n); }, 2500); }));
  await expect.poll(draws).toBe(0);
  await rig.stop();
});

test("a context that is lost comes back with its picture", async ({ watched: { page, faults } }) => {
  await known(page, 3);
  await drawn(page);
  await page.evaluate(() => { const gl = document.querySelector("canvas.cells").getContext("webgl2"); globalThis.lose = gl.getExtension("WEBGL_lose_context"); globalThis.lose.loseContext(); });
  await page.waitForFunction(() => document.querySelector("canvas.cells").getContext("webgl2").isContextLost());
  // Told by an event, after which it may be restored.
  await expect.poll(() => page.evaluate(() => { try { globalThis.lose.restoreContext(); } catch { /* Not yet. */ } return document.querySelector("canvas.cells").getContext("webgl2").isContextLost(); })).toBe(false);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.02);
  expect(faults.filter(f => f.startsWith("error"))).toEqual([]);
});

test("the first picture is there before WebGL, and the same spikes after it", async ({ page, rig }) => {
  await page.addInitScript(() => { const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = function (kind, ...rest) { if (kind === "webgl2" && this.className === "cells" && !globalThis.first) { const c = globalThis.old; globalThis.first = c ? new Set(get.call(c, "2d").getImageData(0, 0, c.width, c.height).data).size : 0; } else if (kind === "2d" && this.className === "cells") globalThis.old = this; return get.call(this, kind, ...rest); }; });
  await page.goto(rig.url);
  await known(page, 1);
  await drawn(page);
  expect(await page.evaluate(() => globalThis.first)).toBeGreaterThan(1);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.001);
});

test("names of 300 characters push no number out of view", async ({ page, rig }) => {
  const long = k => `${k}${"W".repeat(299)}`;
  await told(page, state => ({ ...state, source: { ...state.source, name: long("s"), channel_names: state.source.channel_names.map((_, c) => long(String(c))), outputs: state.source.outputs.map((o, k) => ({ ...o, name: long(`o${k}`) })) }, model: state.model && { ...state.model, name: long("m") } }));
  await page.goto(rig.url);
  await known(page, 3);
  await page.keyboard.press("ArrowDown");
  // Every number is within its panel and within the window.
  const cut = (...selectors) => page.evaluate(all => all.flatMap(selector => [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length > 0).flatMap(e => {
    const box = e.getBoundingClientRect(), within = (e.closest(".panel,header.top,.strip") ?? document.body).getBoundingClientRect();
    return box.width < 1 || box.left < within.left - 1 || box.right > within.right + 1 || box.right > innerWidth + 1 ? [`${selector}: ${box.left.toFixed(0)} to ${box.right.toFixed(0)} in ${within.left.toFixed(0)} to ${within.right.toFixed(0)}`] : [];
  })), selectors);
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    await page.setViewportSize(size);
    await page.evaluate(() => { location.hash = "#v=live&c=1"; });
    await expect(page.locator(".r2").first()).toBeVisible();
    expect(await cut(".clock", ".pill", ".truth dd", ".r2", ".quantiles dd", ".tools select", ".picked span", "button.icon"), `live at ${size.width}`).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
    await page.evaluate(() => { location.hash = "#v=channels&c=1"; });
    await expect(page.locator(".panel.table tbody tr").first()).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
    // The first number of a row stands beside its name.
    expect(await page.locator(".panel.table tbody td").first().evaluate(e => e.getBoundingClientRect().right - e.closest(".panel").getBoundingClientRect().right)).toBeLessThanOrEqual(0);
    await page.evaluate(() => { location.hash = "#v=model"; });
    await expect(page.locator(".panel.card")).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0);
  }
});

test("a tab that has nothing is not shown, and an empty view says so in the middle", async ({ page, rig }) => {
  await page.goto(rig.url);
  await known(page, 1);
  await expect(page.locator("nav a")).toHaveText(["Live", "Channels", "Networks", "Model"]);
  // Its key and its address still lead to it.
  for (const [view, key, words] of [["episodes", "3", "no mined episode"], ["networks", "4", "no network"], ["simulation", "5", "network is simulated"], ["map", "6", "no map"]]) {
    await page.keyboard.press(key);
    await expect(page.locator("nav a[aria-current]")).toHaveAttribute("href", `#v=${view}`);
    const box = page.locator(".waiting");
    await expect(box).toContainText(new RegExp(words, "i"));
    const { x, width } = await box.boundingBox();
    expect(Math.abs(x + width / 2 - 700), view).toBeLessThan(20);
    expect(width, view).toBeGreaterThan(700);
    expect(await page.evaluate(() => document.documentElement.scrollHeight - innerHeight), view).toBe(0);
    expect(await page.locator("main").innerText()).not.toContain("`");
  }
});
