// Steps the example models of the runtime's tests, and expects their estimates to the last bit.
//
//   node check.mjs DECODER.wasm
import { readFileSync } from "node:fs";
import { Decoder } from "./decoder.js";

const tests = new URL("../../crates/decode/runtime/tests/", import.meta.url);
const expected = readFileSync(new URL("sessions/bare/steps.rs", tests), "utf8")
    .match(/EXPECTED: \[f64; 3\] = \[([^\]]*)\]/)[1]
    .split(",")
    .map((number) => Number(number.replaceAll("_", "")))
    .slice(0, 3);
const decoder = await Decoder.load(readFileSync(process.argv[2]));
const refused = (work, words) => {
    try {
        work();
    } catch (error) {
        if (error.message.includes(words)) return;
        throw new Error(`expected "${words}", got "${error.message}"`);
    }
    throw new Error(`expected a refusal with "${words}"`);
};
refused(() => decoder.open(new Uint8Array([1, 2, 3])), "expected");
for (const [i, name] of ["model_v2", "classes", "gated"].entries()) {
    decoder.open(readFileSync(new URL(`fixtures/${name}.betz`, tests)));
    let sum = 0;
    for (let tick = 0; tick < 1000; tick++) {
        const counts = Array.from({ length: decoder.channels }, (_, channel) => +((tick * 7 + channel * 13) % 19 === 0));
        decoder.step(counts).forEach((estimate, output) => (sum += (output + 1) * estimate));
    }
    if (sum !== expected[i]) throw new Error(`${name}: expected ${expected[i]}, got ${sum}`);
    console.log(`${name}: ${decoder.channels} channels, ${decoder.outputs.join(", ")}: the same bits`);
}
