// transformers.js as a browser has it, on a folder: AutoModel with the options that are asked for.
// stdin: {folder, options: {name: options}, pixel_values}; stdout: files that were fetched, tensors.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { decode, encodeAll, request } from "./tensors.mjs";

const { folder, options, pixel_values } = request();
const fetched = [];
const server = createServer(async (query, answer) => {
  const content = await readFile(path.join(path.dirname(folder), query.url)).catch(() => null);
  if (content) fetched.push(path.relative(path.basename(folder), query.url.slice(1)));
  // The network runs in this thread too, and would let a connection that stays open time out.
  answer.writeHead(content ? 200 : 404, { connection: "close" }).end(content);
});
await new Promise((ready) => server.listen(0, "localhost", ready));

// Its file for browsers looks here for what runs it, and takes onnxruntime-web if that is not Node.
Object.defineProperty(process, "release", { value: { name: "browser" } });
const packages = path.join(import.meta.dirname, "node_modules");
const library = path.join(packages, "@huggingface/transformers/dist/transformers.web.js");
const { AutoModel, Tensor, env } = await import(pathToFileURL(library));
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = `http://localhost:${server.address().port}/`;
env.backends.onnx.wasm.wasmPaths = `${pathToFileURL(packages)}/onnxruntime-web/dist/`;
env.backends.onnx.wasm.numThreads = 1; // more look for Node by other means

const input = { pixel_values: new Tensor(...decode(pixel_values)) };
const results = {};
for (const [name, wanted] of Object.entries(options)) {
  const model = await AutoModel.from_pretrained(path.basename(folder), wanted);
  results[name] = { files: fetched.splice(0), outputs: encodeAll(await model(input)) };
  await model.dispose();
}
// Node 20 does not end after this, not even with `process.exit`: who asked has to stop it.
console.log(JSON.stringify(results));
