// Tensors as text: what the programs here read from stdin and print.

import { readFileSync } from "node:fs";

/** The object in JSON on stdin. */
export const request = () => JSON.parse(readFileSync(0, "utf8"));

/** `{dims, data}` with the numbers in base64, from a float32 tensor of any of the libraries. */
export function encode({ type, dims, data }) {
  if (type !== "float32") throw new Error(`an output is ${type}, not float32`);
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { dims: [...dims], data: bytes.toString("base64") };
}

/** The same of every output of a network. */
export const encodeAll = (outputs) =>
  Object.fromEntries(Object.entries(outputs).map(([name, value]) => [name, encode(value)]));

/** The arguments for a tensor's constructor. */
export function decode({ dims, data }) {
  const bytes = Buffer.from(data, "base64");
  return ["float32", new Float32Array(new Uint8Array(bytes).buffer), dims];
}
