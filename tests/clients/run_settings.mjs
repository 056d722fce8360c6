// transformers.js on folders that differ in their settings: processor and AutoModel of each.
// stdin: {folders: {folder: picture}}; stdout: the pixel values and what the network gives.

import path from "node:path";
import { AutoModel, AutoProcessor, RawImage, env } from "@huggingface/transformers";
import { encodeAll, request } from "./tensors.mjs";

env.allowRemoteModels = false;
const results = {};
for (const [folder, picture] of Object.entries(request().folders)) {
  env.localModelPath = path.dirname(folder);
  const name = path.basename(folder);
  const processor = await AutoProcessor.from_pretrained(name);
  const model = await AutoModel.from_pretrained(name, { dtype: "fp32" });
  const { pixel_values } = await processor(await RawImage.read(picture));
  results[folder] = encodeAll({ pixel_values, ...(await model({ pixel_values })) });
  await model.dispose();
}
console.log(JSON.stringify(results));
