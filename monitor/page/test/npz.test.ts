import assert from "node:assert/strict";
import { test } from "node:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store } from "../src/link/store.ts";
import { crc, npz, selection, texts } from "../src/draw/npz.ts";
import { frame } from "./make.ts";

const picture = { end: 20, window: 15, from: 2, to: 6, order: null, sweep: false, ink: [0, 0, 0], paper: [1, 1, 1], dim: [0, 0, 0] } as const;

test("the checksum is a zip's", () => {
  assert.equal(crc(new TextEncoder().encode("123456789")), 0xcbf43926);
  assert.equal(texts("x", ["a", "grün"]).descr, "<U4");
});

/** Where there is Python, its zip reader looks at every checksum, and at the arrays' heads. */
test("a selection is an archive of what is shown", t => {
  const s = new Store({ channels: 8, outputs: 1, stepSeconds: 0.01, keepSeconds: 60 }, 0);
  s.add(frame(0, 0, 20, [[1, 3], [6, 1], [6, 3], [19, 5], [12, 2]]), false);
  const bytes = selection(s, { ...picture } as never, Array.from({ length: 8 }, (_, c) => `ch${c}`), [{ name: "x", unit: "mm" }]);
  const folder = mkdtempSync(join(tmpdir(), "betz-npz-")), path = join(folder, "a.npz");
  writeFileSync(path, bytes);
  const script = `import zipfile,struct,sys
z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None
def f(n,c):
    b=z.read(n+'.npy'); assert b[:6]==b'\\x93NUMPY' and (10+struct.unpack('<H',b[8:10])[0])%64==0; d=b[10+struct.unpack('<H',b[8:10])[0]:]; return list(struct.unpack('<%d%s'%(len(d)//struct.calcsize(c),c),d))
print(f('spike_ticks','q'),f('spike_channels','I'),f('duration_ticks','q'),len(f('behavior','d')),f('behavior_times','d')[:2])`;
  const ran = spawnSync("python3", ["-c", script, path], { encoding: "utf8" });
  rmSync(folder, { recursive: true });
  if (ran.error) { t.skip("no Python"); return; }
  assert.equal(ran.stderr, "");
  assert.equal(ran.stdout.trim(), "[1, 7, 14] [1, 0, 3] [15] 30 [0.0, 0.01]");
});

test("nothing is an archive, too", () => { assert.equal(npz([]).length, 22); });
