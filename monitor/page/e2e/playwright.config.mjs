import { defineConfig } from "@playwright/test";

export default defineConfig({
  // CI builds beside these tests: one that a busy machine has delayed is run again, and listed as flaky.
  retries: 1,
  testDir: ".", timeout: 300_000, expect: { timeout: 30_000, toHaveScreenshot: { maxDiffPixelRatio: 0.01 } }, snapshotPathTemplate: "{testDir}/looks/{arg}{ext}", updateSnapshots: "none", workers: 1, reporter: [["list"]], outputDir: "../test-results",
  use: {
    viewport: { width: 1400, height: 860 },
    launchOptions: {
      executablePath: process.env.BETZ_CHROMIUM ?? "/usr/bin/chromium",
      // Software drawing: without a word WebGL is off where there is no GPU, and tests would be green on nothing.
      args: ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"],
    },
  },
});
