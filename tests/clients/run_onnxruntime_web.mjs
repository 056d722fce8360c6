// onnxruntime-web's WebAssembly on the files of a folder.
// stdin: {folder, files: {variant: path}, pixel_values}; stdout: tensors.

import { readFileSync } from "node:fs";
import path from "node:path";
import * as ort from "onnxruntime-web";
import { decode, encodeAll, request } from "./tensors.mjs";

const { folder, files, pixel_values } = request();
const input = { pixel_values: new ort.Tensor(...decode(pixel_values)) };
const outputs = {};
for (const [variant, file] of Object.entries(files)) {
  const bytes = readFileSync(path.join(folder, file));
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  outputs[variant] = encodeAll(await session.run(input));
  await session.release();
}
console.log(JSON.stringify({ version: ort.env.versions.web, outputs }));
