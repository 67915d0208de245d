// What is looked at rather than run: recordings, networks, mined episodes.
import { readFileSync } from "node:fs";
import { drawn, expect, run, shown as test } from "./rig.mjs";

/** A list of choices in the bar over the graph. */
const choice = (page, name) => page.locator(".net-graph label", { hasText: new RegExp(`^${name} `) }).locator("select");
const look = async (page, hash) => { await page.evaluate(h => { location.hash = h; }, hash); };
const networks = async (page, hash = "#v=networks") => {
  await look(page, hash);
  await page.waitForFunction(() => { const n = globalThis.betzNet?.net; return n && n.first.value && n.edgesOf(n.first.value) !== null && globalThis.betzNet.spent.edges > 0; });
};
const state = (page, what) => page.evaluate(w => { const n = globalThis.betzNet.net, l = n.first.value; return { window: n.windowOf(l), edges: n.counted(l), threshold: n.threshold.value, placing: n.placing.value, drawn: globalThis.betzNet.spent.edges }[w]; }, what);
/** The share of the graph's pixels that are inked: alpha, since paper is seen through. */
const ink = page => page.evaluate(() => {
  const canvas = document.querySelector("canvas.net"), gl = canvas.getContext("webgl2"), { width, height } = canvas, pixels = new Uint8Array(width * height * 4);
  gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
  let inked = 0;
  for (let i = 3; i < pixels.length; i += 4) if (pixels[i] > 20) inked++;
  return inked / (width * height);
});

test("a recording is drawn and played, and the address leads to a moment", async ({ looked: { page, faults } }) => {
  await page.waitForFunction(() => globalThis.betz?.store?.spikes > 100);
  await expect(page.getByRole("status").first()).toHaveText("recording");
  const at = () => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")));
  const before = await at();
  await page.keyboard.press("Space");
  await expect(page.getByRole("status").first()).toHaveText("playing");
  await expect.poll(at).toBeGreaterThan(before);
  await page.keyboard.press("Space");
  expect(faults).toEqual([]);
});

test("a threshold moves without asking the server", async ({ looked: { page, faults } }) => {
  await networks(page);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.005);
  const asked = [];
  page.on("request", r => asked.push(r.url()));
  const [edges, threshold] = [await state(page, "edges"), await state(page, "threshold")];
  for (let k = 0; k < 5; k++) await page.keyboard.press("]");
  expect(await state(page, "threshold")).toBeCloseTo(threshold + 0.05, 3);
  const fewer = await state(page, "edges");
  expect(fewer).toBeLessThan(edges);
  await expect.poll(() => state(page, "drawn")).toBe(fewer);
  await page.getByRole("slider", { name: "Threshold" }).focus();
  await page.keyboard.press("Home");
  await expect.poll(() => state(page, "edges")).toBeGreaterThan(edges);
  expect(asked).toEqual([]);
  expect(faults).toEqual([]);
});

test("by the keyboard from window to window, and to a node and its edges", async ({ looked: { page } }) => {
  await networks(page);
  const before = await state(page, "window");
  await page.keyboard.press(".");
  await page.keyboard.press(".");
  await expect.poll(() => state(page, "window")).toBe(before + 2);
  await page.keyboard.press(",");
  await expect.poll(() => state(page, "window")).toBe(before + 1);
  await expect(page.locator("[aria-live=polite]").last()).toContainText("window");
  await page.getByLabel("node", { exact: true }).fill("ch8");
  await page.keyboard.press("Enter");
  await expect(page.locator(".node b")).toHaveText("ch8");
  const rows = page.locator(".node tbody tr");
  await expect(rows.first()).toBeVisible();
  const other = await rows.first().locator("button").innerText();
  await rows.first().locator("button").click();
  await expect(page.locator(".node b")).toHaveText(other);
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("node=");
});

test("sessions over each other, side by side, and what parts them", async ({ looked: { page } }) => {
  await networks(page, "#v=networks&n=0,1&t=45");
  await expect(page.locator("canvas.net")).toHaveCount(1);
  await choice(page, "compare").selectOption("side");
  await expect(page.locator("canvas.net")).toHaveCount(2);
  // Both pictures show the same part of the plane in the same scale: a node lies at the same place in both.
  const where = async k => { const box = await page.locator("canvas.net").nth(k).boundingBox(); await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2); return page.locator("canvas.net").nth(k).evaluate(() => globalThis.betzNet.net.hovered.value); };
  expect(await where(0)).toBe(await where(1));
  await choice(page, "compare").selectOption("diff");
  await expect(page.locator(".said")).toContainText("alone");
  await page.getByRole("checkbox", { name: "its second half" }).uncheck();
  await expect(choice(page, "compare").locator("option")).toHaveText(["nothing", "two thresholds"]);
});

test("two thresholds beside each other, of which the second moves alone", async ({ looked: { page, faults } }) => {
  await networks(page, "#v=networks&n=0&t=45&th=0.3");
  await choice(page, "compare").selectOption("two");
  await expect(page.locator("canvas.net")).toHaveCount(2);
  const titles = page.locator(".graph h3"), edges = async k => Number(/: ([\d,]+) edges/.exec(await titles.nth(k).innerText())?.[1].replace(",", ""));
  await expect(titles.nth(0)).toContainText("from 0.300");
  await expect(titles.nth(0)).toContainText(/: [\d,]+ edges/);
  const first = await edges(0);
  await expect.poll(() => edges(1)).toBeLessThan(first);
  await page.getByLabel("Second threshold").fill("0.2");
  await page.keyboard.press("Enter");
  await expect(titles.nth(1)).toContainText("from 0.200");
  await expect.poll(() => edges(1)).toBeGreaterThan(first);
  expect(await edges(0)).toBe(first);
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("th2=0.2");
  expect(faults).toEqual([]);
});

test("a node under the pointer says its edges, and every session has a column", async ({ looked: { page, faults } }) => {
  await networks(page, "#v=networks&n=0,1&t=45&th=0.3&node=8");
  const columns = page.locator(".node thead th"), rows = page.locator(".node tbody tr");
  await expect(columns).toHaveCount(4);
  await expect(page.locator(".node p").first()).toContainText(/degree \d+ \/ \d+/);
  const counts = await page.evaluate(async () => { const n = globalThis.betzNet.net; return n.loaded.value.map(l => { const e = n.edgesOf(l); let links = 0; for (let k = 0; k < e.key.length && e.key[k] >= n.threshold.value; k++) if (e.i[k] === 8 || e.j[k] === 8) links++; return links; }); });
  await expect(page.locator(".node p").first()).toContainText(`degree ${counts.join(" / ")}`);
  expect(await rows.locator("td:nth-child(2)", { hasText: /\d/ }).count()).toBe(counts[1]);
  await page.evaluate(() => { globalThis.betzNet.net.hovered.value = 8; });
  const tip = page.locator(".graph .tip");
  await expect(tip).toContainText("ch8 at");
  for (const [k, name] of (await page.evaluate(() => globalThis.betzNet.net.loaded.value.map(l => l.info.name))).entries()) await expect(tip).toContainText(`${name}: ${counts[k]} edges`);
  expect(faults).toEqual([]);
});

test("all sessions are unloaded at once, and can be had again", async ({ looked: { page, faults } }) => {
  await networks(page, "#v=networks&n=0,1&t=45");
  await page.getByRole("button", { name: "unload all" }).click();
  await expect(page.getByText("No network is chosen.")).toBeVisible();
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("n=none");
  await page.locator(".sessions input").first().check();
  await expect(page.locator("canvas.net")).toHaveCount(1);
  expect(faults).toEqual([]);
});

test("a part of the raster is drawn round with Alt, and shown alone", async ({ looked: { page } }) => {
  await look(page, "#v=live&t=20&w=10");
  const cells = page.locator("canvas.cells");
  await expect(cells).toBeVisible();
  // Another canvas comes with WebGL: the one that stays is drawn on.
  await drawn(page);
  const box = await cells.boundingBox(), at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.keyboard.down("Alt");
  await page.mouse.move(...at(0.5, 0.25));
  await page.mouse.down();
  await page.mouse.move(...at(0.6, 0.4));
  await page.mouse.move(...at(0.75, 0.5));
  await expect(page.locator(".part")).toBeVisible();
  await page.mouse.up();
  await page.keyboard.up("Alt");
  const hash = key => page.evaluate(k => Number(new URLSearchParams(location.hash.slice(1)).get(k)), key);
  await expect.poll(() => hash("w")).toBeCloseTo(2.5, 1);
  expect(await hash("t")).toBeCloseTo(17.5, 1);
  const [from, to] = (await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("ch"))).split("-").map(Number), channels = await page.evaluate(() => globalThis.betz.store.shape.channels);
  expect(Math.abs(from - channels / 4)).toBeLessThanOrEqual(1);
  expect(Math.abs(to + 1 - channels / 2)).toBeLessThanOrEqual(1);
});

test("a region alone, communities, layouts and the matrix", async ({ looked: { page, faults } }) => {
  await networks(page);
  const before = await ink(page);
  await page.getByLabel("region").fill("0-7");
  await page.getByRole("button", { name: "show only" }).click();
  await expect(page.locator(".region")).toContainText("8 nodes");
  await expect.poll(() => ink(page)).toBeLessThan(before);
  await page.getByRole("button", { name: "all nodes" }).click();
  await page.getByLabel("region").fill("900");
  await page.getByRole("button", { name: "show only" }).click();
  await expect(page.locator(".region")).toContainText("expected names");
  await choice(page, "colours").selectOption("communities");
  await page.waitForFunction(() => { const n = globalThis.betzNet.net, l = n.first.value; return l.communities.size === l.info.windows && n.work.value === null; });
  await choice(page, "nodes").selectOption("force");
  await page.waitForFunction(() => globalThis.betzNet.net.first.value.forced !== null && globalThis.betzNet.net.work.value === null);
  await choice(page, "as").selectOption("matrix");
  await expect(page.getByRole("img", { name: /Adjacency matrix/ })).toBeVisible();
  expect(faults).toEqual([]);
});

test("a session takes another colour, which the address says, and every session has its communities' strip", async ({ looked: { page, faults } }) => {
  await networks(page);
  await page.keyboard.press("Shift+S");
  await page.waitForFunction(() => globalThis.betzNet.net.loaded.value.length === 2);
  const colour = k => page.locator(`.sessions .line.ink${k}`).evaluate(e => getComputedStyle(e).borderTopColor);
  const before = [await colour(0), await colour(1)];
  await page.getByRole("button", { name: /^Another colour for/ }).first().click();
  // Whose colour it took has its own: two sessions never have one.
  await expect.poll(async () => [await colour(0), await colour(1)]).toEqual([before[1], before[0]]);
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("ink=1023");
  await choice(page, "colours").selectOption("communities");
  await page.waitForFunction(() => { const n = globalThis.betzNet.net; return n.work.value === null && n.loaded.value.every(l => l.communities.size === l.info.windows); });
  expect(faults).toEqual([]);
  // The first session's strip taken away, the second's is there still.
  await page.evaluate(() => { const n = globalThis.betzNet.net; n.loaded.value[0].communities.clear(); n.moved.value++; });
  await expect.poll(() => page.locator(".edges-time").evaluate(c => {
    const { data } = c.getContext("2d").getImageData(0, c.height * 0.5, c.width, c.height * 0.3);
    let hued = 0;
    for (let i = 0; i < data.length; i += 4) if (Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 40 && data[i + 3] > 200) hued++;
    return hued / (data.length / 4);
  })).toBeGreaterThan(0.1);
});

test("correlations of a recording, in windows of one's own", async ({ page }) => {
  // A server of its own, which keeps what it computed: others compare pictures of what it shows.
  const rig = await run(process.env.BETZ_SHOWN, []), faults = [];
  page.on("pageerror", e => faults.push(`error: ${e.message}`));
  await page.goto(rig.url);
  await networks(page);
  await page.getByText("compute from a recording", { exact: true }).click();
  await page.getByLabel("window, s").fill("0");
  await page.getByRole("button", { name: "compute" }).click();
  await expect(page.getByRole("alert")).toContainText("expected bins");
  await page.getByLabel("window, s").fill("8");
  await page.getByRole("button", { name: "compute" }).click();
  await page.waitForFunction(() => globalThis.betzNet.net.offered.value.length === 3 && globalThis.betzNet.net.first.value?.info.id === 2);
  expect(faults).toEqual([]);
  await rig.stop();
});

test("episodes: a list, every occurrence, from one to the next", async ({ looked: { page, faults } }) => {
  await look(page, "#v=episodes");
  // The chain that was mined comes before the pairs, which are more frequent.
  const first = page.locator(".ep-list tbody tr").first();
  await expect(first).toContainText("ch3 → ch17 → ch30 → ch44 → ch61");
  await first.locator("button").click();
  await expect(page.locator(".ep-aligned .note")).toContainText("from their first spikes");
  const at = () => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("t")));
  await page.keyboard.press("n");
  await expect.poll(at).toBeGreaterThan(10);
  const there = await at();
  await page.keyboard.press("n");
  await expect.poll(at).toBeGreaterThan(there);
  await page.keyboard.press("p");
  await expect.poll(at).toBe(there);
  await page.getByRole("button", { name: "zoom to it" }).click();
  const window = () => page.evaluate(() => Number(new URLSearchParams(location.hash.slice(1)).get("w") ?? 10));
  await expect.poll(window).toBeLessThan(1);
  await expect.poll(async () => Math.abs(await at() - await window() / 2 - (there - 5))).toBeLessThan(0.5);
  await page.getByLabel("count at least").fill("100000");
  await expect(page.locator(".ep-list")).toContainText("passes the filter");
  expect(faults).toEqual([]);
});

test("the edges of a picked node are drawn over the others", async ({ looked: { page, faults } }) => {
  await networks(page, "#v=networks&n=0&th=0.2&t=31");
  const red = () => page.evaluate(() => {
    const canvas = document.querySelector(".field .over");
    if (!canvas) return 0;
    const d = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0;
    for (let i = 3; i < d.length; i += 4) if (d[i] > 100) inked++;
    return inked;
  });
  await look(page, "#v=networks&n=0&th=0.2&t=31&node=8");
  await expect.poll(red).toBeGreaterThan(0);
  const links = await page.evaluate(() => { const { net } = globalThis.betzNet, e = net.edgesOf(net.first.value), n = net.counted(net.first.value); return [...Array(n).keys()].filter(k => e.i[k] === 8 || e.j[k] === 8).length; });
  expect(links).toBeGreaterThan(2);
  const withEdges = await red();
  // Above all its edges the ring alone is left.
  await page.evaluate(() => globalThis.betzNet.net.setThreshold(globalThis.betzNet.net.first.value.info.levels.at(-1)));
  await expect.poll(red).toBeLessThan(withEdges / 2);
  // The reading of pixels above earns a hint from the browser.
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

test("a region is in the address, and a state is kept", async ({ looked: { page }, plainRig }) => {
  await networks(page, "#v=networks&n=0&th=0.3");
  await page.getByLabel("region").fill("0-7, 12");
  await page.getByRole("button", { name: "show only" }).click();
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("rg=0-7,12");
  await page.keyboard.press("Escape");
  await page.reload();
  await expect(page.locator(".region")).toContainText("9 nodes");
  await page.locator(".net-graph").click({ position: { x: 200, y: 8 } });
  await page.keyboard.press("e");
  const [kept] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "state" }).click()]);
  const state = JSON.parse(readFileSync(await kept.path(), "utf8"));
  expect(state).toMatchObject({ betz_state: 1, region: [0, 1, 2, 3, 4, 5, 6, 7, 12] });
  expect(state.address).toContain("rg=0-7,12");
  await page.keyboard.press("Escape");
  // What a server was given to begin with holds where the address says nothing.
  await page.route("**/api/state?*", async route => { const answer = await route.fetch(); await route.fulfill({ response: answer, json: { ...await answer.json(), kept: { ...state, address: "#v=networks&n=1&th=0.4" } } }); });
  await page.goto("about:blank");
  await page.goto(new URL("/", plainRig.url).href);
  await page.waitForFunction(() => globalThis.betzNet?.net.first.value?.info.id === 1);
  await expect(page.locator(".region")).toContainText("9 nodes");
  await page.keyboard.press("S");
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("n=1,0");
  await page.keyboard.press("l");
  await expect(page.locator(".sessions input").first()).toBeFocused();
});

test("what is taken along is what is shown", async ({ looked: { page } }) => {
  await networks(page);
  await page.keyboard.press("e");
  const [table] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "edges, CSV" }).click()]);
  const lines = readFileSync(await table.path(), "utf8").trim().split("\n");
  expect(lines.filter(l => !l.startsWith("#"))).toHaveLength(1 + await state(page, "edges"));
  const [picture] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "SVG", exact: true }).click()]);
  expect(readFileSync(await picture.path(), "utf8")).toContain("<circle");
  await page.keyboard.press("Escape");
  await look(page, "#v=live");
  await expect(page.locator("canvas.cells")).toBeVisible();
  await page.keyboard.press("e");
  const [spikes] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "spikes, CSV" }).click()]);
  expect(readFileSync(await spikes.path(), "utf8")).toContain("seconds,channel,spikes");
  const rows = async (hash, ready, name) => {
    await page.keyboard.press("Escape");
    await look(page, hash);
    await ready();
    await page.keyboard.press("e");
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
    const all = readFileSync(await file.path(), "utf8").trim().split("\n");
    expect(all.filter(l => l.startsWith("# address: http://127.0.0.1"))).toHaveLength(1);
    return all.filter(l => !l.startsWith("#"));
  };
  const channels = await rows("#v=channels", () => expect(page.locator(".panel.table tbody tr").first()).toBeVisible(), "channels, CSV");
  expect(channels[0]).toBe("channel,rate,fano,short,neighbour,share,state,x_um,y_um");
  expect(channels).toHaveLength(1 + 64);
  const found = await rows("#v=episodes&ep=0.0&t=20", () => expect(page.locator(".ep-aligned .note")).toContainText("from their first spikes"), "occurrences, CSV");
  const [, shown] = /([\d,]+) of/.exec(await page.locator(".ep-aligned .note").innerText());
  expect(found).toHaveLength(1 + Number(shown.replaceAll(",", "")));
  const nodes = await rows("#v=map&mv=2", () => page.waitForFunction(() => globalThis.betzMap?.planes.value), "nodes, CSV");
  expect(nodes[0]).toBe("row,column,height,hits,unit,ch2");
  expect(nodes).toHaveLength(1 + await page.evaluate(() => globalThis.betzMap.info.value.rows * globalThis.betzMap.info.value.columns));
  const [map] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "PNG × 2" }).click()]);
  expect([...readFileSync(await map.path()).subarray(16, 24)]).toEqual([0, 0, 8, 152, 0, 0, 7, 8]);
});

test("a network whose context was lost is drawn again", async ({ looked: { page, faults } }) => {
  await networks(page);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.005);
  await page.evaluate(() => { globalThis.lose = document.querySelector("canvas.net").getContext("webgl2").getExtension("WEBGL_lose_context"); globalThis.lose.loseContext(); });
  await page.waitForFunction(() => document.querySelector("canvas.net").getContext("webgl2").isContextLost());
  // Told by an event, after which it may be restored.
  await expect.poll(() => page.evaluate(() => { try { globalThis.lose.restoreContext(); } catch { /* Not yet. */ } return document.querySelector("canvas.net").getContext("webgl2").isContextLost(); })).toBe(false);
  await expect.poll(() => ink(page)).toBeGreaterThan(0.005);
  expect(faults.filter(f => f.startsWith("error"))).toEqual([]);
});

test("a picture of many edges has the strongest of them and says so; on demand, all that still ones can", async ({ page }) => {
  const rig = await run(process.env.BETZ_SHOWN, ["--nodes", "4000"]);
  await page.goto(rig.url);
  await networks(page, "#v=networks&n=2");
  await page.evaluate(() => { const { net } = globalThis.betzNet; net.setThreshold(net.first.value.info.levels[0]); });
  const spent = () => page.evaluate(() => ({ ...globalThis.betzNet.spent }));
  await page.waitForFunction(() => globalThis.betzNet.spent.edges === 40_000 && globalThis.betzNet.spent.drawn === 30_000);
  await expect(page.locator(".field .plain")).toContainText("the 30,000 strongest of 40,000 edges");
  await page.getByRole("button", { name: "draw all" }).click();
  await page.waitForFunction(() => globalThis.betzNet.spent.edges === 40_000 && globalThis.betzNet.spent.drawn === 40_000);
  const cut = page.waitForFunction(() => { const { drawn, edges } = globalThis.betzNet.spent; return drawn < edges ? drawn : null; });
  const box = await page.locator("canvas.net").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let k = 0; k < 6; k++) await page.mouse.wheel(0, k % 2 === 0 ? -100 : 100);
  expect(await (await cut).jsonValue()).toBeGreaterThan(0);
  await expect.poll(async () => (await spent()).drawn).toBe(40_000);
  await expect(page.locator(".field .plain")).toHaveCount(0);
  await rig.stop();
});

test("without WebGL there are pictures all the same, and the page says so", async ({ browser, plainRig }) => {
  const page = await browser.newPage();
  await page.addInitScript(() => { const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = function (kind, ...rest) { return kind === "webgl2" ? null : get.call(this, kind, ...rest); }; });
  await page.goto(plainRig.url);
  await expect(page.locator(".raster")).toContainText("no WebGL2");
  const inked = selector => page.evaluate(s => { const c = document.querySelector(s), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(`${d[i]} ${d[i + 1]} ${d[i + 2]} ${d[i + 3]}`); return seen.size; }, selector);
  await expect.poll(() => inked("canvas.cells")).toBeGreaterThan(1);
  await look(page, "#v=networks");
  await expect(page.locator(".net-graph")).toContainText("no WebGL2");
  await expect.poll(() => inked("canvas.net")).toBeGreaterThan(3);
  await page.close();
});

test("a link to another recording, put into a page that is open, shows that recording", async ({ reached: { page, faults } }) => {
  const shape = () => page.evaluate(() => [globalThis.betz.store.shape.channels, document.querySelector(".truth").textContent.match(/channels(\d+)/)?.[1]].join());
  for (const [hash, channels] of [["#v=live&t=20&w=5", "64,64"], ["#v=channels&s=1&t=30&c=3", "32,32"]]) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await expect.poll(shape).toBe(channels);
  }
  await expect(page.locator(".inspector h2")).toHaveText("M1 4");
  expect(faults).toEqual([]);
});
