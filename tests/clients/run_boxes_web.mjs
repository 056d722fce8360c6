// onnxruntime-web's WebAssembly on files that find things, and what transformers.js makes of their
// outputs, as the page has it.
// stdin: {files: {variant: path}, pixel_values}; stdout: boxes of each variant and picture.

import { readFileSync } from "node:fs";
import { RTDetrImageProcessor, Tensor } from "@huggingface/transformers";
import * as ort from "onnxruntime-web";
import { decode, request } from "./tensors.mjs";

const { files, pixel_values } = request();
const input = { pixel_values: new ort.Tensor(...decode(pixel_values)) };
const processor = new RTDetrImageProcessor({});
const found = {};
for (const [variant, file] of Object.entries(files)) {
  const bytes = readFileSync(file);
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const outputs = Object.fromEntries(Object.entries(await session.run(input))
    .map(([name, { data, dims }]) => [name, new Tensor("float32", data, [...dims])]));
  const queries = outputs.logits.dims[1];
  found[variant] = processor.post_process_object_detection(outputs, 0, null, true)
    .map(({ scores, classes, boxes }) =>
      scores.map((score, i) => ({ label: classes[i], score, corners: [...boxes[i]] }))
        .sort((one, other) => other.score - one.score).slice(0, queries));
  await session.release();
}
console.log(JSON.stringify({ version: ort.env.versions.web, found }));
