// onnxruntime-web's WebAssembly on files that find things, and what the page makes of their outputs.
// stdin: {files: {variant: path}, pixel_values, size}; stdout: boxes of each variant and picture.

import { readFileSync } from "node:fs";
import * as ort from "onnxruntime-web";
import { boxesOf } from "./boxes.mjs";
import { decode, request } from "./tensors.mjs";

const { files, pixel_values, size } = request();
const input = { pixel_values: new ort.Tensor(...decode(pixel_values)) };
const found = {};
for (const [variant, file] of Object.entries(files)) {
  const bytes = readFileSync(file);
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const outputs = await session.run(input);
  found[variant] = Array.from({ length: pixel_values.dims[0] }, (_, row) => {
    const own = Object.entries(outputs).map(([name, { dims, data }]) => {
      const count = dims[1] * dims[2];
      return [name, { dims: [1, ...dims.slice(1)], data: data.subarray(row * count, (row + 1) * count) }];
    });
    return boxesOf(Object.fromEntries(own), size, size);
  });
  await session.release();
}
console.log(JSON.stringify({ version: ort.env.versions.web, found }));
