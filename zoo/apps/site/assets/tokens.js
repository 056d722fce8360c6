// From texts to the numbers of words that the model takes, as its tokenizer's files say.

import { model } from "./model.js";

let reading = null;

async function json(name) {
  const response = await fetch(`${model.folder}/${name}`);
  if (!response.ok) throw new Error(`${name} is not there (${response.status})`);
  return response.json();
}

async function read() {
  const [{ Tokenizer }, words, settings] = await Promise.all([
    import("../runtime/tokenizers.min.mjs"), json("tokenizer.json"), json("tokenizer_config.json"),
  ]);
  const { pad_token: pad, padding_side: side, model_max_length: length } = settings;
  const tokenizer = new Tokenizer(words, settings);
  return { tokenizer, pad: tokenizer.token_to_id(pad.content ?? pad), left: side === "left", length };
}

/** The numbers of one text, all of them: those of words are cut, those that every text has stay. */
function numbers(tokenizer, text, length) {
  const { ids } = tokenizer.encode(text);
  if (ids.length <= length) return ids;
  const words = tokenizer.encode(text, { add_special_tokens: false }).ids;
  const before = ids.indexOf(words[0]);
  const kept = length - (ids.length - words.length);
  return [...ids.slice(0, before + kept), ...ids.slice(before + words.length)];
}

/**
 * `input_ids` [texts, tokens] as the worker takes them, and where the model takes it the
 * `attention_mask`, which is 1 for words and 0 for padding.
 */
export async function encoded(texts) {
  reading ??= read();
  reading.catch(() => { reading = null; });
  const { tokenizer, pad, left, length } = await reading;
  const given = texts.map((text) => numbers(tokenizer, text, length));
  const padded = (ids, filler) => {
    const padding = new Array(length - ids.length).fill(filler);
    return left ? [...padding, ...ids] : [...ids, ...padding];
  };
  const tensor = (rows) => ({
    type: "int64", data: BigInt64Array.from(rows.flat(), BigInt), dims: [texts.length, length],
  });
  const inputs = {
    input_ids: () => tensor(given.map((ids) => padded(ids, pad))),
    attention_mask: () => tensor(given.map((ids) => padded(ids.map(() => 1), 0))),
  };
  return model.takes.filter((name) => name in inputs).map((name) => inputs[name]());
}
