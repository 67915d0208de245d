// What a page may do to a session: nothing without --control, and with it what was asked for twice.
import { expect, known, test } from "./rig.mjs";

const ASKED = [["swap", { model: 1 }], ["roll-back", {}], ["release", {}], ["mask", { channels: [1] }], ["mark", { text: "here" }], ["pause", { paused: true }], ["stimulus", { population: 0, first: 0, count: 1, current_pa: 1 }]];
const ask = (page, what, body) => page.evaluate(async ([w, b]) => { const answer = await fetch(`/api/control/${w}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(b) }); return { status: answer.status, words: await answer.text() }; }, [what, body]);
const look = (page, hash) => page.evaluate(h => { location.hash = h; }, hash);
/** Questions are answered with yes, and kept. */
const yes = page => { const asked = []; page.on("dialog", d => { asked.push(d.message()); void d.accept(d.type() === "prompt" ? "the cue" : undefined); }); return asked; };
const events = page => page.evaluate(() => fetch("/api/events").then(r => r.json()));

test("read-only, nothing can be asked for and everything is refused", async ({ watched: { page, faults } }) => {
  await known(page, 0.5);
  await look(page, "#v=model");
  await expect(page.locator("main.model")).toContainText("read-only");
  await expect(page.getByRole("button", { name: /swap|roll back|mark/ })).toHaveCount(0);
  await look(page, "#v=channels");
  await expect(page.locator("main.channels")).toBeVisible();
  await expect(page.getByRole("button", { name: /mask/ })).toHaveCount(0);
  const before = faults.length;
  for (const [what, body] of ASKED) expect((await ask(page, what, body)).status, what).toBe(403);
  // The browser itself says on its console that it was refused: once for each.
  expect(faults.slice(before).every(f => f.includes("403"))).toBe(true);
  expect((await events(page)).filter(e => e.type === "control")).toEqual([]);
});

test.describe("with --control", () => {
  test.use({ args: ["--channels", "64", "--control"] });

  test("a swap shows old and new side by side, and one key takes it back", async ({ watched: { page } }) => {
    const asked = yes(page);
    await known(page, 6);
    await look(page, "#v=model");
    const running = page.locator(".panel.card dl");
    await expect(running).toContainText("tau 40 ms");
    await page.getByRole("button", { name: "swap to this" }).click();
    await expect(running).toContainText("tau 80 ms");
    await expect(page.locator(".truth")).toContainText("tau 80 ms");
    expect(asked.join()).toContain("Swap to tau 80 ms?");
    const both = page.locator(".panel.both");
    await expect(both).toContainText("the old one, standing by");
    await expect(both.locator(".besides")).toHaveText(/^-?\d+\.\d\d$/);
    await expect(both.locator("canvas")).toHaveCount(2);
    // Two models of other time constants say different things of the same spikes; before, one ran alone.
    const apart = await page.evaluate(() => { const s = globalThis.betz.store; let both = 0, same = 0, alone = 0; for (let i = 0; i < 2 * s.rows; i += 2) { const e = s.estimate[i], b = s.beside[i]; if (Number.isNaN(b)) alone++; else if (Math.abs(b - e) < 1e-3) same++; else both++; } return { both, same, alone }; });
    expect(apart.alone).toBeGreaterThan(0);
    expect(apart.both).toBeGreaterThan(10 * apart.same);
    await expect(page.locator("ol.log")).toContainText(/a model took over: swap to tau 80 ms, R² 0\.\d\d before, -?\d+\.\d\d after/);
    await page.keyboard.press("r");
    await expect(running).toContainText("tau 40 ms");
    expect(asked.at(-1)).toContain("Roll back");
    await expect(both).toHaveCount(0);
    expect((await events(page)).map(e => e.what).filter(Boolean)).toEqual(["swap", "roll back"]);
  });

  test("a question that is answered with no does nothing", async ({ watched: { page } }) => {
    await known(page, 0.5);
    await look(page, "#v=model");
    const question = page.waitForEvent("dialog").then(d => d.dismiss());
    await page.getByRole("button", { name: "swap to this" }).click();
    await question;
    expect((await events(page)).filter(e => e.type === "control")).toEqual([]);
  });

  test("noisy channels are masked, every page says so, and the mask is taken back", async ({ watched: { page }, context }) => {
    const asked = yes(page), other = await context.newPage();
    await other.goto(new URL("/#v=channels", page.url()).href);
    await known(page, 4);
    await look(page, "#v=channels&c=43");
    await page.getByRole("button", { name: /^mask \d+ noisy/ }).click();
    // What the server works out is on the page and in the question, before anything is masked.
    await expect.poll(() => asked.at(-1)).toMatch(/removes [\d.]+ % of the readout.*R² against the truth: vx -?\d\.\d{3} → -?\d\.\d{3} \(ΔR² [−+]\d\.\d{3}\), vy -?\d\.\d{3} → -?\d\.\d{3} \(ΔR² [−+]\d\.\d{3}\)\./);
    await expect(page.locator(".cost")).toContainText("R² against the truth");
    const row = on => on.locator(".panel.table tbody tr", { hasText: /^ch43/ });
    for (const on of [page, other]) {
      await on.getByLabel("Find a channel").fill("ch43");
      await expect(row(on)).toContainText("masked");
      await expect(on.getByTitle("Channels that are left out by a mask")).toHaveText(/^masked!?\s*[1-9]/);
    }
    await page.getByRole("button", { name: "no mask" }).click();
    for (const on of [page, other]) {
      await expect(row(on)).not.toContainText("masked");
      await expect(on.getByTitle("Channels that are left out by a mask")).toHaveText(/^masked\s*0$/);
    }
    await other.close();
  });

  test("what a mask would cost is told, and nothing is masked where the question is answered with no", async ({ watched: { page } }) => {
    await known(page, 4);
    await look(page, "#v=channels");
    const question = page.waitForEvent("dialog").then(async d => { const words = d.message(); await d.dismiss(); return words; });
    await page.getByRole("button", { name: /^mask \d+ noisy/ }).click();
    expect(await question).toContain("R² against the truth: vx");
    expect((await events(page)).filter(e => e.type === "control")).toEqual([]);
    const expected = channels => page.evaluate(async c => { const a = await fetch("/api/expected", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ channels: c }) }); return { status: a.status, words: await a.text() }; }, channels);
    // No mask costs nothing; all of it, everything; a channel that is not there is refused in words.
    const none = JSON.parse((await expected([])).words), all = JSON.parse((await expected([...Array(64).keys()])).words);
    for (const o of none.outputs) expect(o.now).toBe(o.masked);
    for (const o of all.outputs) { expect(o.masked).toBeLessThan(0.05); expect(o.now).not.toBe(o.masked); }
    // The noisy channel pulls one output aside; how far that counts hangs on the seconds that there are.
    expect(Math.max(...all.outputs.map(o => o.now))).toBeGreaterThan(0.3);
    expect(await expected([64])).toEqual({ status: 400, words: expect.stringContaining("0 to 63") });
  });

  test("channels that are ticked are masked, once it was asked for, and ticks are taken back", async ({ watched: { page } }) => {
    const asked = yes(page);
    await known(page, 4);
    await look(page, "#v=channels");
    const tick = name => page.getByRole("checkbox", { name: `Mask ${name}`, exact: true });
    await tick("ch2").check();
    await tick("ch5").check();
    await tick("ch5").uncheck();
    await page.getByRole("button", { name: "undo" }).click();
    await expect(tick("ch2")).not.toBeChecked();
    await expect(page.getByRole("button", { name: /ticked/ })).toHaveCount(0);
    for (const name of ["ch1", "ch4"]) await tick(name).check();
    await page.getByRole("button", { name: /^mask 2 ticked/ }).click();
    await expect.poll(async () => (await events(page)).findLast(e => e.what === "mask")?.channels).toEqual([1, 4]);
    expect(asked.at(-1)).toMatch(/Mask 2 channels\? That removes \d\.\d % .*R² against the truth/);
    await expect(page.locator(".panel.table tbody tr", { hasText: /^ch4/ }).first()).toContainText("masked");
    await expect(tick("ch4")).toBeChecked();
    await page.getByRole("button", { name: "no mask" }).click();
    await expect(tick("ch4")).not.toBeChecked();
  });

  test("weights of one output and one filter, of whichever model runs", async ({ watched: { page, faults } }) => {
    yes(page);
    await known(page, 3);
    await look(page, "#v=model");
    const hued = () => page.locator(".panel.weights canvas").evaluate(c => {
      const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height - 24);
      let blue = 0, orange = 0;
      for (let i = 0; i < data.length; i += 4) { if (data[i + 2] - data[i] > 100) blue++; if (data[i] - data[i + 2] > 100 && data[i + 3] === 255) orange++; }
      return [blue, orange];
    });
    const choice = name => page.locator(".panel.weights label", { hasText: new RegExp(`^${name}`) }).locator("select");
    await choice("of").selectOption({ label: "vy" });
    await expect(page.getByRole("img", { name: /^Weights of vy, filter τ 40 ms, order 1/ })).toBeVisible();
    // Preferred directions go round: as many channels are for vy as are against it.
    await expect.poll(async () => { const [blue, orange] = await hued(); return Math.min(blue, orange) > 500 ? blue / orange : 0; }).toBeGreaterThan(0.8);
    const [blue, orange] = await hued();
    expect(blue / orange).toBeLessThan(1.25);
    await expect.poll(() => page.evaluate(() => location.hash)).toContain("wt=1.0");
    await page.getByRole("button", { name: "swap to this" }).click();
    await expect(page.getByRole("img", { name: /^Weights of vy, filter τ 80 ms/ })).toBeVisible();
    await choice("of").selectOption({ label: "all" });
    await expect(page.locator(".panel.weights .note")).toContainText("as a share of all");
    expect(await page.evaluate(() => fetch("/api/weights/0123").then(r => r.status))).toBe(404);
    expect(faults.filter(f => !f.includes("404") && !f.includes("willReadFrequently"))).toEqual([]);
  });

  test("a mark by its key is seen by all", async ({ watched: { page } }) => {
    const asked = yes(page);
    await known(page, 0.5);
    // The key and the reading of the clock in one turn of the page, however busy the machine is.
    const end = await page.evaluate(() => { const { end } = globalThis.betz.store; document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "m", bubbles: true })); return end; });
    await expect.poll(async () => (await events(page)).some(e => e.what === "mark")).toBe(true);
    const mark = (await events(page)).find(e => e.what === "mark");
    // At the moment of the key, without a question; it is named afterwards.
    expect(mark.tick).toBe(end - 1);
    expect(asked).toEqual([]);
    await page.getByLabel(/marked; name/).fill("the cue");
    await page.keyboard.press("Enter");
    await expect.poll(async () => (await events(page)).find(e => e.what === "name mark")?.text).toBe("the cue");
    await look(page, "#v=model");
    await expect(page.locator("ol.log")).toContainText("mark: the cue");
  });

  test("what the server refuses is said in its words", async ({ watched: { page } }) => {
    await known(page, 0.5);
    for (const [what, body, words] of [["swap", { model: 7 }, "0 to 1"], ["mask", { channels: [64] }, "0 to 63"], ["roll-back", {}, ""], ["dance", {}, "expected swap"]]) {
      const answer = await ask(page, what, body);
      expect(answer.status, what).toBe(409);
      expect(answer.words).toContain(words);
    }
    expect((await ask(page, "swap", { modle: 1 })).status).toBe(400);
  });
});

test.describe("a simulation", () => {
  test.use({ args: ["--channels", "32", "--control", "--simulation"] });
  test("that one page pauses is paused on every page", async ({ watched: { page }, context }) => {
    const other = await context.newPage();
    await other.goto(new URL("/#v=simulation", page.url()).href);
    await look(page, "#v=simulation");
    await known(page, 0.5);
    await known(other, 0.5);
    await page.getByRole("button", { name: "pause", exact: true }).click();
    for (const on of [page, other]) await expect(on.getByRole("button", { name: "resume", exact: true })).toHaveAttribute("aria-pressed", "true");
    await expect(other.getByRole("status").first()).toHaveText(/nothing received for/);
    await other.getByRole("button", { name: "resume", exact: true }).click();
    for (const on of [page, other]) await expect(on.getByRole("button", { name: "pause", exact: true })).toHaveAttribute("aria-pressed", "false");
    await expect(page.getByRole("status").first()).toHaveText(/live|behind/);
    await other.close();
  });
});
