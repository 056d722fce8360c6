// The fastest run of each file in onnxruntime-web, in turns: node web.mjs PACKAGE ROUNDS SIDE FILE…
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, rounds, side, ...files] = process.argv.slice(2);
const bundle = `${folder}/node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs`;
const ort = await import(pathToFileURL(bundle));
ort.env.wasm.numThreads = 1;
const pixels = Float32Array.from({ length: 3 * side * side }, Math.random);
const image = new ort.Tensor("float32", pixels, [1, 3, Number(side), Number(side)]);
const runs = [];
for (const file of files) {
  const session = await ort.InferenceSession.create(new Uint8Array(readFileSync(file)));
  await session.run({ pixel_values: image });
  runs.push({ file, session, fastest: Infinity });
}
for (let round = 0; round < rounds; round++) {
  for (const run of runs) {
    const began = performance.now();
    await run.session.run({ pixel_values: image });
    run.fastest = Math.min(run.fastest, performance.now() - began);
  }
}
console.log(JSON.stringify(Object.fromEntries(runs.map((run) => [run.file, run.fastest]))));
