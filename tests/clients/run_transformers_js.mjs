// transformers.js on a folder: its processor, AutoModel on every variant, its pipeline.
// stdin: {folder, pictures, variants: {name: options}, pixel_values}; stdout: tensors.

import path from "node:path";
import {
  AutoModel,
  AutoProcessor,
  RawImage,
  Tensor,
  env,
  pipeline,
} from "@huggingface/transformers";
import { decode, encode, encodeAll, request } from "./tensors.mjs";

const { folder, pictures, variants, pixel_values } = request();
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);
const name = path.basename(folder);

const processor = await AutoProcessor.from_pretrained(name);
const process = async (picture) => (await processor(await RawImage.read(picture))).pixel_values;
const processed = {};
for (const picture of pictures) processed[picture] = encode(await process(picture));

const input = { pixel_values: new Tensor(...decode(pixel_values)) };
const outputs = {};
for (const [variant, options] of Object.entries(variants)) {
  const model = await AutoModel.from_pretrained(name, options);
  outputs[variant] = encodeAll(await model(input));
  await model.dispose();
}

const photograph = path.join(folder, "photograph.png");
const extract = await pipeline("image-feature-extraction", name, { dtype: "fp32" });
const features = {
  last_hidden_state: encode(await extract(photograph)),
  pooler_output: encode(await extract(photograph, { pool: true })),
};
console.log(JSON.stringify({ version: env.version, processed, outputs, features }));
