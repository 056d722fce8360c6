// transformers.js' pipeline for classifiers on a folder: its answers for a picture, best first.
// stdin: {folder, picture, dtypes}; stdout: {dtype: [{label, score}]}.

import path from "node:path";
import { env, pipeline } from "@huggingface/transformers";
import { request } from "./tensors.mjs";

const { folder, picture, dtypes } = request();
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);

const answers = {};
for (const dtype of dtypes) {
  const classify = await pipeline("image-classification", path.basename(folder), { dtype });
  answers[dtype] = await classify(picture, { top_k: 5 });
  await classify.dispose();
}
console.log(JSON.stringify(answers));
