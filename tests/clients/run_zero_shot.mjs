// transformers.js on a folder of both towers: labels for a picture, and the vectors of texts and the
// picture by each tower alone. stdin: {folder, picture, labels, dtypes}; stdout: {dtype: {answers,
// texts, image}}, tensors as {dims, data}.

import path from "node:path";
import {
  AutoProcessor, AutoTokenizer, RawImage, SiglipTextModel, SiglipVisionModel, env, pipeline,
} from "@huggingface/transformers";
import { encode, request } from "./tensors.mjs";

const { folder, picture, labels, dtypes } = request();
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);
const name = path.basename(folder);

const tokenizer = await AutoTokenizer.from_pretrained(name);
const processor = await AutoProcessor.from_pretrained(name);
const words = tokenizer(labels, { padding: "max_length", truncation: true });
const pixels = await processor(await RawImage.read(picture));
const found = {};
for (const dtype of dtypes) {
  const ask = await pipeline("zero-shot-image-classification", name, { dtype });
  const text = await SiglipTextModel.from_pretrained(name, { dtype });
  const vision = await SiglipVisionModel.from_pretrained(name, { dtype });
  found[dtype] = {
    answers: await ask(picture, labels, { hypothesis_template: "This is a photo of {}." }),
    texts: encode((await text(words)).pooler_output),
    image: encode((await vision(pixels)).pooler_output),
  };
}
console.log(JSON.stringify(found));
