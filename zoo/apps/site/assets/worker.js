// Runs models beside the page, so that it stays alive meanwhile.

import * as ort from "../runtime/ort.wasm.bundle.min.mjs";

const sessions = new Map(); // promises, by name

/** A file's bytes; `told` hears how many have come. */
async function download(address, size, told) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} is not there (${response.status})`);
  const bytes = new Uint8Array(size);
  const reader = response.body.getReader();
  let place = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    bytes.set(part.value, place);
    place += part.value.length;
    told(place);
  }
  return bytes;
}

const calls = {
  async open({ name, address, size }, told) {
    if (!sessions.has(name)) {
      const made = download(address, size, told)
        .then((bytes) => ort.InferenceSession.create(bytes));
      sessions.set(name, made);
      made.catch(() => sessions.delete(name));
    }
    await sessions.get(name);
  },
  async run({ name, feed }) {
    const session = await sessions.get(name);
    const inputs = [feed].flat().map(({ type, data, dims }, index) =>
      [session.inputNames[index], new ort.Tensor(type, data, dims)]);
    const began = performance.now();
    const results = await session.run(Object.fromEntries(inputs));
    const ms = performance.now() - began;
    const outputs = {};
    for (const [key, { dims, data }] of Object.entries(results)) outputs[key] = { dims, data };
    return { outputs, ms };
  },
};

self.onmessage = async ({ data: { id, call, given } }) => {
  try {
    const value = await calls[call](given, (bytes) => self.postMessage({ id, bytes }));
    self.postMessage({ id, value, done: true });
  } catch (error) {
    self.postMessage({ id, error: error.message ?? String(error), done: true });
  }
};
