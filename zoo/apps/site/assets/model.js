// Run the model of the page with transformers.js. All files are loaded from this site when they are
// first needed.

export const byId = (id) => document.getElementById(id);
export const say = (text) => { byId("status").textContent = text; };
export const model = JSON.parse(byId("model").textContent);

const networks = new Map(); // promises, by variant
let library = null; // a promise
let preparing = null; // a promise of the image processor

async function configured() {
  const found = await import("../runtime/transformers.min.js");
  const address = (path) => new URL(path, document.baseURI).href;
  Object.assign(found.env, {
    allowLocalModels: true, allowRemoteModels: false, localModelPath: ".",
    useBrowserCache: false, useWasmCache: false, logLevel: found.LogLevel.ERROR,
  });
  const [mjs, wasm] = ["mjs", "wasm"].map((kind) =>
    address(`runtime/ort-wasm-simd-threaded.${kind}`));
  // Networks run in a worker, so that the page can still be used.
  Object.assign(found.env.backends.onnx.wasm, { proxy: true, wasmPaths: { mjs, wasm } });
  return found;
}

/** Return transformers.js, configured to load files from this site. */
export function transformers() {
  library ??= configured();
  return library;
}

/** Load a variant. `told` is called with the number of bytes that were loaded. */
export function open(name, told = () => {}) {
  if (!networks.has(name)) {
    const progress_callback = ({ status, loaded }) => { if (status === "progress") told(loaded); };
    const options = { ...model.files[name].options, progress_callback };
    const network = transformers().then(({ AutoModel }) =>
      AutoModel.from_pretrained(model.folder, options));
    network.catch(() => networks.delete(name));
    networks.set(name, network);
  }
  return networks.get(name);
}

/** Return the image processor of the folder. It rescales and normalizes pictures that already have
 * the size of the network's input. */
export async function processor() {
  preparing ??= transformers().then(({ AutoImageProcessor }) =>
    AutoImageProcessor.from_pretrained(model.folder));
  const off = { do_resize: false, do_center_crop: false, do_pad: false };
  return Object.assign(await preparing, off);
}

/** Run a variant on a picture. Return its outputs, its configuration, and the time in milliseconds. */
export async function run(name, { seen, full }) {
  const network = await open(name);
  const { RawImage } = await transformers();
  const feed = model.input === "uint8"
    ? { image: RawImage.fromCanvas(full()).rgb().toTensor("HWC").unsqueeze(0) }
    : await (await processor())(RawImage.fromCanvas(seen));
  const began = performance.now();
  const outputs = await network(feed);
  return { name, outputs, config: network.config, ms: performance.now() - began };
}

/** Return the result of a pipeline of the library for a network's outputs. */
export async function answer(pipeline, { outputs, config }, { seen }, ...options) {
  const { [pipeline]: Pipeline, RawImage } = await transformers();
  const network = Object.assign(async () => outputs, { config });
  const ask = new Pipeline({ model: network, processor: await processor() });
  return ask(RawImage.fromCanvas(seen), ...options);
}

/** Return the tokenizer of the folder, for lists of texts. It pads texts to the length that the file
 * takes. If the library truncates a text, the token that ends every text is restored. */
export async function tokenizer() {
  const { AutoTokenizer } = await transformers();
  const found = await AutoTokenizer.from_pretrained(model.folder);
  const end = found.encode("").at(-1);
  return (texts) => {
    const encoded = found(texts, { padding: "max_length", truncation: true });
    const { data, dims: [, length] } = encoded.input_ids;
    texts.forEach((text, row) => {
      const ids = found.encode(text);
      if (ids.length > length && ids.at(-1) === end) data[(row + 1) * length - 1] = BigInt(end);
    });
    return encoded;
  };
}

/** Return a function that calls `act`, and calls it again if it was called in the meantime. `act` gets
 * a function that returns whether its answer is still needed. Errors are shown on the page. */
export function latest(act) {
  let [busy, stale] = [false, false];
  return async () => {
    stale = true;
    if (busy) return;
    busy = true;
    while (stale) {
      stale = false;
      await act(() => !stale).catch((error) => say(`It does not work: ${error.message}.`));
    }
    busy = false;
  };
}
