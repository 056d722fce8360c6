// `zeroShot` in Node. stdin: {folder, picture, labels, dtypes}; stdout: its answer, tensors as
// {dims, data}.

import path from "node:path";
import * as library from "@huggingface/transformers";
import { encode, request } from "./tensors.mjs";
import { zeroShot } from "./zero_shot.mjs";

const { folder, ...asked } = request();
library.env.allowRemoteModels = false;
library.env.localModelPath = path.dirname(folder);
const answer = await zeroShot(library, { name: path.basename(folder), ...asked }, encode);
console.log(JSON.stringify(answer));
