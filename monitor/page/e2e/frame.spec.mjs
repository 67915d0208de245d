// The page in a frame of another page, as a notebook shows it: another site, without cookies.
import { createServer } from "node:http";
import { once } from "node:events";
import { run, test as base, expect } from "./rig.mjs";

const test = base.extend({
  /** A page of `localhost`, whose frame on 127.0.0.1 is of another site. */
  notebook: async ({ page }, use) => {
    const rig = await run(process.env.BETZ_SHOWN, ["--embed"]), faults = [];
    let frame = rig.url;
    const server = createServer((_, answer) => answer.setHeader("Content-Type", "text/html").end(
      `<!doctype html><title>Notebook</title><h1>Notebook</h1><iframe src="${frame}" title="Betz" width="1200" height="700" sandbox="allow-scripts allow-same-origin allow-downloads" referrerpolicy="no-referrer"></iframe>`));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    page.on("console", m => faults.push(m.text()));
    page.on("pageerror", e => faults.push(e.message));
    await use({ rig, faults, open: async url => { frame = url; await page.goto(`http://localhost:${server.address().port}/`); return page.frameLocator("iframe"); } });
    server.close();
    await rig.stop();
  },
});

test("the page draws in a frame of another site, with all that it loads later", async ({ page, notebook }) => {
  const framed = await notebook.open(notebook.rig.url);
  await expect(framed.locator("nav a[aria-current]")).toHaveText("Recording");
  const inner = page.frames().find(f => f.url().includes("/embed/"));
  await inner.waitForFunction(() => globalThis.betz?.store?.spikes > 100);
  for (const name of ["Networks", "Episodes", "Map"]) {
    await framed.locator("nav").getByText(name).click();
    await expect(framed.locator("nav a[aria-current]")).toHaveText(name);
    await expect(framed.locator("main canvas").first()).toBeVisible();
  }
  expect(await page.context().cookies()).toEqual([]);
  // A frame of another site may not take the focus before somebody clicks into it; the browser says so.
  expect(notebook.faults.filter(f => !f.startsWith("Blocked autofocusing"))).toEqual([]);
});

test("a frame of the ordinary address stays empty, and so does one whose token is wrong", async ({ page, notebook }) => {
  const { origin, pathname } = new URL(notebook.rig.url), token = pathname.split("/")[2];
  for (const url of [`${origin}/?token=${token}`, `${origin}/embed/${token.replace(/./g, "0")}/`]) {
    const framed = await notebook.open(url);
    await expect.poll(() => notebook.faults.some(f => /frame-ancestors/.test(f)), url).toBe(true);
    await expect(framed.locator("nav a")).toHaveCount(0);
    notebook.faults.length = 0;
  }
});
