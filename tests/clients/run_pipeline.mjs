// transformers.js' pipeline for a task on a folder: what it answers for a picture.
// stdin: {folder, task, picture, dtypes}; stdout: {dtype: answer}, a tensor as {dims, data}.

import path from "node:path";
import { env, pipeline } from "@huggingface/transformers";
import { encode, request } from "./tensors.mjs";

const { folder, task, picture, dtypes } = request();
env.allowRemoteModels = false;
env.localModelPath = path.dirname(folder);

const answers = {};
for (const dtype of dtypes) {
  const ask = await pipeline(task, path.basename(folder), { dtype });
  const answer = await ask(picture);
  answers[dtype] = answer.predicted_depth ? encode(answer.predicted_depth) : answer;
  await ask.dispose();
}
console.log(JSON.stringify(answers));
