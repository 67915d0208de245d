// Compiles the tests with esbuild and runs them under node --test: no browser.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url)), out = mkdtempSync(join(tmpdir(), "betz-page-"));
const tests = readdirSync(here).filter(f => f.endsWith(".test.ts"));
await build({ entryPoints: tests.map(t => join(here, t)), outdir: out, bundle: true, platform: "node", format: "esm", outExtension: { ".js": ".mjs" }, logLevel: "warning", jsx: "automatic", jsxImportSource: "preact" });
const ran = spawnSync(process.execPath, ["--test", ...tests.map(t => join(out, t.replace(".ts", ".mjs")))], { stdio: "inherit", env: { ...process.env, BETZ_GOLDEN: join(here, "../../tests/golden") } });
rmSync(out, { recursive: true });
process.exit(ran.status ?? 1);
