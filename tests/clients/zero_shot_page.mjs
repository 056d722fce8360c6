// `zeroShot` in a page, with the file of transformers.js that is for pages. The folder and the
// picture are paths of the page's own server.

import * as library from "/node_modules/@huggingface/transformers/dist/transformers.min.js";
import { zeroShot } from "./zero_shot.mjs";

function encode({ dims, data }) {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte));
  return { dims: [...dims], data: btoa(letters.join("")) };
}

export function answer({ folder, ...asked }) {
  const place = folder.lastIndexOf("/") + 1;
  Object.assign(library.env, { allowRemoteModels: false, allowLocalModels: true });
  library.env.localModelPath = folder.slice(0, place);
  // What runs models comes from this server too, for there may be no network.
  library.env.backends.onnx.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
  return zeroShot(library, { name: folder.slice(place), ...asked }, encode);
}
