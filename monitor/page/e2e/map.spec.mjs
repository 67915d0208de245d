// Self-organising maps: stages of a training, planes, one node after the other, and a training while it goes on.
import { expect, run, shown as test } from "./rig.mjs";

const look = async (page, hash) => { await page.evaluate(h => { location.hash = h; }, hash); await page.waitForFunction(() => globalThis.betzMap?.surface.value); };
const map = (page, what) => page.evaluate(w => { const m = globalThis.betzMap, i = m.info.value; return { stage: m.stage.value, stages: i.stages.length, cell: m.cell.value, errors: i.errors.length, training: i.training, name: i.name }[w]; }, what);
/** Colours of the field, and how many there are. */
const colours = page => page.evaluate(() => { const c = document.querySelector("canvas.somfield"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height - 30).data, seen = new Map(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) { const k = `${d[i]} ${d[i + 1]} ${d[i + 2]}`; seen.set(k, (seen.get(k) ?? 0) + 1); } return [...seen.entries()].filter(e => e[1] > 20).map(e => e[0].split(" ").map(Number)); });
const choice = (page, name) => page.locator(".som-field label", { hasText: new RegExp(`^${name} `) }).locator("select");

test("U-matrix, hits, planes and three planes as colours", async ({ looked: { page, faults } }) => {
  await look(page, "#v=map");
  // A change is drawn with the browser's next picture.
  await expect.poll(async () => (await colours(page)).filter(([r, g, b]) => r === g && g === b).length).toBeGreaterThan(20);
  await choice(page, "shows").selectOption("hits");
  await expect.poll(async () => (await colours(page)).filter(([r, g, b]) => r !== g || g !== b).length).toBeGreaterThan(3);
  await choice(page, "shows").selectOption("plane");
  await choice(page, "component").selectOption("3");
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("mv=3");
  await expect.poll(() => page.evaluate(() => globalThis.betzMap.planes.value?.of)).toMatch(/ 3$/);
  await choice(page, "of").selectOption("1");
  await choice(page, "shows").selectOption("rgb");
  // Colours that a map of colours learns: red, green and blue ones among them.
  const strong = k => async () => (await colours(page)).filter(c => c[k] > c[(k + 1) % 3] + 60 && c[k] > c[(k + 2) % 3] + 60).length;
  for (const k of [0, 1, 2]) await expect.poll(strong(k)).toBeGreaterThan(3);
  // The browser has advice for who reads pixels often, as this test does.
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

test("by the keyboard from stage to stage and from node to node; the address leads back", async ({ looked: { page, faults } }) => {
  await look(page, "#v=map");
  const last = await map(page, "stage");
  expect(await map(page, "errors")).toBeGreaterThan(last);
  await page.keyboard.press(",");
  await page.keyboard.press(",");
  await expect.poll(() => map(page, "stage")).toBe(last - 2);
  await expect(page.locator(".stages")).toContainText("after 28 epochs");
  await page.keyboard.press(".");
  await expect.poll(() => map(page, "stage")).toBe(last - 1);
  await page.locator("canvas.somfield").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  expect(await map(page, "cell")).toBe(19);
  await expect(page.locator(".som-node .facts")).toContainText("2, 2");
  await expect(page.locator("[aria-live=polite]").last()).toContainText("row 2, column 2");
  await page.locator(".som-node tbody tr", { hasText: "ch7" }).first().getByRole("button").click();
  await expect.poll(() => page.evaluate(() => location.hash)).toMatch(/mv=7.*cell=19/);
  const address = await page.evaluate(() => location.href);
  await page.goto("about:blank");
  await page.goto(address);
  await page.waitForFunction(() => globalThis.betzMap?.surface.value);
  expect([await map(page, "cell"), await map(page, "stage")]).toEqual([19, last - 1]);
  await expect(choice(page, "component")).toHaveValue("7");
  expect(faults).toEqual([]);
});

test("a click on a node shows its samples, nearest first: as curves, or as colours", async ({ looked: { page, faults } }) => {
  const samples = () => page.evaluate(() => { const s = globalThis.betzMap.samples.value; return s && { rows: [...s.rows], distances: [...s.distances], values: s.values.length, total: s.total }; });
  await look(page, "#v=map");
  const node = await page.evaluate(() => { const h = globalThis.betzMap.surface.value.hits; return h.indexOf(Math.max(...h)); });
  const hits = await page.evaluate(n => globalThis.betzMap.surface.value.hits[n], node);
  const box = await page.locator("canvas.somfield").boundingBox();
  // The node's place, found by asking which one a click picks.
  const cell = async (x, y) => { await page.mouse.click(box.x + x, box.y + y); return map(page, "cell"); };
  expect(await cell(box.width / 2, box.height / 2 - 10)).not.toBe(null);
  await page.evaluate(n => globalThis.betzMap.pick(n), node);
  await expect.poll(async () => (await samples())?.total).toBe(hits);
  const found = await samples();
  expect(found.rows.length).toBe(hits);
  expect(found.distances).toEqual([...found.distances].sort((a, b) => a - b));
  expect(found.values).toBe(Math.min(64, hits) * 64);
  const part = page.locator(".samples");
  await expect(part.locator("h3")).toContainText(`${hits} sample`);
  await expect(part.locator("tbody tr").first()).toContainText(String(found.rows[0]));
  await expect.poll(() => part.locator("canvas").evaluate(c => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v > 0))).toBe(true);
  // Colours are shown as such: that of the nearest sample is nearly the node's.
  await look(page, "#v=map&m=1");
  await page.evaluate(() => { const m = globalThis.betzMap; m.pick(m.surface.value.hits.findIndex(h => h > 0)); });
  await expect(page.locator(".swatches i").first()).toBeVisible();
  const [swatch, weights] = await page.evaluate(() => [getComputedStyle(document.querySelector(".swatches i")).backgroundColor.match(/\d+/g).map(Number), [...globalThis.betzMap.weights.value.values]]);
  for (const k of [0, 1, 2]) expect(Math.abs(swatch[k] / 255 - weights[k])).toBeLessThan(0.3);
  expect(faults).toEqual([]);
});

test("U-matrix and components side by side", async ({ looked: { page, faults } }) => {
  await look(page, "#v=map");
  await choice(page, "shows").selectOption("all");
  await expect.poll(() => page.evaluate(() => globalThis.betzMap.gallery.value?.values.length)).toBe(15);
  const same = await page.evaluate(async () => { const m = globalThis.betzMap, held = m.gallery.value; m.show({ what: "plane", dim: held.dims[7] }); for (let k = 0; k < 100 && !m.planes.value?.of.endsWith(` ${held.dims[7]}`); k++) await new Promise(d => setTimeout(d, 50)); return held.values[7].every((v, n) => v === m.planes.value.values[n]); });
  expect(same).toBe(true);
  await choice(page, "shows").selectOption("all");
  await choice(page, "from").selectOption("60");
  await expect.poll(() => page.evaluate(() => globalThis.betzMap.gallery.value?.dims.join())).toBe("60,61,62,63");
  await expect.poll(async () => (await colours(page)).filter(([r, g, b]) => r !== g || g !== b).length).toBeGreaterThan(10);
  // A click in any of them picks the node in all.
  const box = await page.locator("canvas.somfield").boundingBox();
  await page.mouse.click(box.x + box.width * 0.2, box.y + box.height * 0.3);
  await expect.poll(() => map(page, "cell")).not.toBe(null);
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

test("a map in three dimensions turns by mouse and keyboard, and its nodes can be picked", async ({ looked: { page, faults } }) => {
  await look(page, "#v=map&m=2");
  const turn = () => page.evaluate(() => globalThis.betzMap.turn3d.value);
  expect(await turn()).toBe(null);
  await page.getByLabel("in 3-D").check();
  await expect.poll(turn).toEqual({ around: 30, up: 25 });
  const canvas = page.locator("canvas.somfield"), box = await canvas.boundingBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
  const picture = () => canvas.evaluate(c => c.toDataURL());
  await expect.poll(async () => (await colours(page)).length).toBeGreaterThan(20);
  const before = await picture();
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + 80, y + 20, { steps: 4 });
  await page.mouse.up();
  const after = await turn();
  expect(after.around).not.toBe(30);
  expect(after.up).toBeGreaterThan(25);
  await expect.poll(picture).not.toBe(before);
  expect(await map(page, "cell")).toBe(null);
  await canvas.focus();
  await page.keyboard.press("Shift+ArrowRight");
  await expect.poll(async () => (await turn()).around).toBe((after.around + 10) % 360);
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => map(page, "cell")).toBe(0);
  // Between the discs there is nothing to pick.
  await expect.poll(async () => { await page.mouse.click(x + 60 * Math.random() - 30, y + 60 * Math.random() - 30); return map(page, "cell"); }).toBeGreaterThan(0);
  await expect(page.locator(".som-node .facts")).toContainText("layer");
  await expect.poll(() => page.evaluate(() => location.hash)).toContain("td=");
  expect(faults.filter(f => !f.includes("willReadFrequently"))).toEqual([]);
});

test("what the server has not is refused in words", async ({ looked: { page } }) => {
  const ask = path => page.evaluate(p => fetch(p).then(async r => [r.status, await r.text()]), path);
  for (const [path, words] of [["/api/map/7", "one of 3 maps"], ["/api/map/0/999", "stage"], ["/api/map/0/0/planes?dims=64", "below 64"], ["/api/map/0/0/planes?dims=0,1,2,3", "one to 3"], ["/api/map/0/0/node/252", "below 252"]]) {
    const [status, said] = await ask(path);
    expect(status, path).toBe(404);
    expect(said).toContain(words);
  }
  expect((await ask("/api/map/0/0/planes?dims=x"))[0]).toBe(400);
});

test("a training is watched while it goes on, and a stage is held", async ({ page }) => {
  const rig = await run(process.env.BETZ_SHOWN, ["--slowly", "150"]);
  await page.goto(rig.url);
  await look(page, "#v=map&m=1");
  await expect(page.locator(".stages")).toContainText("trained:");
  const before = await map(page, "stages");
  await expect.poll(() => map(page, "stages")).toBeGreaterThan(before + 1);
  await page.keyboard.press(",");
  const held = await map(page, "stage");
  const there = await map(page, "stages");
  await expect.poll(() => map(page, "stages")).toBeGreaterThan(there);
  expect(await map(page, "stage")).toBe(held);
  // In one turn of the page: every stage renders the button anew.
  await page.getByRole("button", { name: "follow it" }).evaluate(b => b.click());
  await expect.poll(() => map(page, "training"), { timeout: 20_000 }).toBe(null);
  expect([await map(page, "stages"), await map(page, "stage"), await map(page, "errors")]).toEqual([31, 30, 31]);
  await rig.stop();
});

test("a channel that is a sorted unit shows its mean waveform, another does not", async ({ looked: { page, faults } }) => {
  await page.route("**/api/map/0", async route => {
    const info = await (await route.fetch()).json();
    await route.fulfill({ json: { ...info, units: [{ name: "ch9", spikes: 120, rate_hz: 2, waveform: [0, -60, 20, 5, 0] }] } });
  });
  await page.evaluate(() => { location.hash = "#v=channels&t=20&c=9"; });
  const waveform = page.getByRole("img", { name: "Mean waveform of ch9, in microvolts" });
  await expect(waveform).toBeVisible();
  await expect(page.locator(".inspector figcaption").last()).toHaveText("mean waveform, µV");
  await expect.poll(() => waveform.evaluate(c => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v > 0))).toBe(true);
  await page.evaluate(() => { location.hash = "#v=channels&t=20&c=10"; });
  await expect(page.locator(".inspector h2")).toHaveText("ch10");
  await expect(waveform).toHaveCount(0);
  expect(faults).toEqual([]);
});
