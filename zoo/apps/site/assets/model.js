// The model of the page: what it takes, and a worker that runs its files.

import { pixelValues } from "./preprocess.js";

export const model = JSON.parse(document.getElementById("model").textContent);

let worker = null;
let last = 0;
const waiting = new Map();

function call(name, given, told = () => {}) {
  if (worker === null) {
    worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => {
      const { told, resolve, reject } = waiting.get(data.id);
      if (!data.done) return told(data.bytes);
      waiting.delete(data.id);
      return data.error === undefined ? resolve(data.value) : reject(new Error(data.error));
    };
    worker.onerror = () => {
      for (const { reject } of waiting.values()) reject(new Error("the runtime cannot be loaded"));
      waiting.clear();
      worker = null;
    };
  }
  const id = (last += 1);
  return new Promise((resolve, reject) => {
    waiting.set(id, { told, resolve, reject });
    worker.postMessage({ id, call: name, given });
  });
}

/** Have a file ready to run; `told` hears how many of its bytes have come. */
export function open(name, told) {
  const { file, bytes } = model.files[name];
  const address = new URL(`${model.folder}/${file}`, document.baseURI).href;
  return call("open", { name, address, size: bytes }, told);
}

/**
 * Outputs by name, each `{dims, data}`, and how many milliseconds the run took. `feed` is what
 * `prepare` gives, or a list in the order of the file's inputs where it takes more.
 */
export function run(name, feed) {
  return call("run", { name, feed });
}

/** What the files take, of RGB values [height, width, 3]. */
export function prepare(rgb, height, width) {
  if (model.input === "uint8") {
    return { type: "uint8", data: Uint8Array.from(rgb), dims: [1, height, width, 3] };
  }
  const data = pixelValues(rgb, height, width, model.preprocessing, model.size);
  return { type: "float32", data, dims: [1, 3, ...model.size] };
}

export function softmax(values) {
  const most = Math.max(...values);
  const powers = Array.from(values, (value) => Math.exp(value - most));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((each) => each / sum);
}
