// From masks of queries, or classes of patches, to areas: the arithmetic of zoo.tasks.areas.

import { softmax } from "./model.js";

const SURE = 0.8; // of its class a query has to be more than this,
const LEFT = 0.8; // and more than this share of its mask has to be left to it
const LIGHTNESS = [0.55, 0.4, 0.7]; // of the first, second and third segment of a class

const { fround } = Math;

/** For each of `count` places along an edge: the two of `length` that it lies between. */
function between(length, count) {
  const scale = fround(length / count);
  return Array.from({ length: count }, (_, place) => {
    const centre = Math.max(0, fround(fround((place + 0.5) * scale) - 0.5));
    const low = Math.min(Math.floor(centre), length - 1);
    const share = fround(centre - low);
    return { low, high: Math.min(low + 1, length - 1), share, rest: fround(1 - share) };
  });
}

/** [height, width] in float32 at another size, as torch's bilinear interpolation. */
export function resizeBilinear(values, [height, width], [tall, wide]) {
  const rows = new Float32Array(tall * width);
  between(height, tall).forEach(({ low, high, share, rest }, y) => {
    for (let x = 0; x < width; x += 1) {
      const [above, below] = [values[low * width + x], values[high * width + x]];
      rows[y * width + x] = fround(above * rest) + fround(below * share);
    }
  });
  const out = new Float32Array(tall * wide);
  between(width, wide).forEach(({ low, high, share, rest }, x) => {
    for (let y = 0; y < tall; y += 1) {
      const [left, right] = [rows[y * width + low], rows[y * width + high]];
      out[y * wide + x] = fround(left * rest) + fround(right * share);
    }
  });
  return out;
}

/** The upper left part [height, width] of rows of another width. */
function upperLeft(values, wide, [height, width]) {
  const out = new Float32Array(height * width);
  for (let y = 0; y < height; y += 1) {
    out.set(values.subarray(y * wide, y * wide + width), y * width);
  }
  return out;
}

/** Maps [1, count, height, width] one by one, each with its number, at another size. */
function* resized({ dims: [, count, ...from], data }, numbers, to) {
  const step = from[0] * from[1];
  for (const number of numbers ?? Array(count).keys()) {
    yield [number, resizeBilinear(data.subarray(number * step, (number + 1) * step), from, to)];
  }
}

/** Where no value is larger: `{value, which}` of places, -1 where there is none. */
function largest(count) {
  return { value: new Float32Array(count).fill(-Infinity), which: new Int32Array(count).fill(-1) };
}

function keep({ value, which }, number, values) {
  values.forEach((each, place) => {
    if (each > value[place]) {
      value[place] = each;
      which[place] = number;
    }
  });
}

/** The class of every pixel, by logits of patches; of a segment the share of the picture. */
function classMap(logits, size) {
  const best = largest(size[0] * size[1]);
  for (const [label, values] of resized(logits, null, size)) keep(best, label, values);
  const counts = new Map();
  for (const label of best.which) counts.set(label, 1 + (counts.get(label) ?? 0));
  const segments = [...counts]
    .sort(([one, ones], [other, others]) => others - ones || one - other)
    .map(([label, count]) => ({ label, score: count / best.which.length }));
  const numbers = new Map(segments.map(({ label }, number) => [label, number]));
  return { areas: best.which.map((label) => numbers.get(label)), segments, size };
}

/** Segments that share no pixel, by masks of queries; of a picture padded to `size` the part that
 * is `shown`. */
function panoptic(classes, masks, size, shown) {
  const [, queries, count] = classes.dims;
  const sure = Array.from({ length: queries }, (_, query) => {
    const shares = softmax(classes.data.subarray(query * count, (query + 1) * count));
    const score = Math.max(...shares);
    return { label: shares.indexOf(score), score };
  });
  const kept = [...sure.keys()].filter((query) =>
    sure[query].label !== count - 1 && sure[query].score > SURE);
  const best = largest(shown[0] * shown[1]);
  const wholes = new Map();
  for (const [query, logits] of resized(masks, kept, size)) {
    const inside = upperLeft(logits, size[1], shown);
    keep(best, query, inside.map((logit) => sure[query].score / (1 + Math.exp(-logit))));
    wholes.set(query, Uint8Array.from(inside, (logit) => Number(logit >= 0)));
  }
  const areas = new Int32Array(best.which.length).fill(-1);
  const segments = [];
  for (const [query, whole] of wholes) {
    const own = whole.map((_, place) => Number(best.which[place] === query));
    const sum = (flags) => flags.reduce((total, flag) => total + flag, 0);
    const seen = own.map((flag, place) => flag & whole[place]);
    if (!sum(seen) || sum(own) / sum(whole) <= LEFT) continue;
    seen.forEach((flag, place) => { if (flag) areas[place] = segments.length; });
    segments.push(sure[query]);
  }
  return { areas, segments, size: shown };
}

/** What outputs say is where: for every pixel of `size` the number of its segment or -1, and of
 * each segment `{label, score}`; null if they say nothing of areas. */
export function areasOf(outputs, size, shown) {
  const { class_queries_logits: classes, masks_queries_logits: masks, logits } = outputs;
  if (masks) return panoptic(classes, masks, size, shown);
  return logits?.dims.length === 4 ? classMap(logits, size) : null;
}

/** A colour [red, green, blue] for each segment: one of its class, lighter or darker for the
 * second of a class. */
export function segmentColours(segments) {
  const seen = new Map();
  return segments.map(({ label }) => {
    const before = seen.get(label) ?? 0;
    seen.set(label, before + 1);
    const lightness = LIGHTNESS[before % LIGHTNESS.length];
    const range = 0.65 * Math.min(lightness, 1 - lightness);
    return [0, 8, 4].map((band) => {
      const place = (band + label * 4.5836) % 12; // the golden angle, in twelfths of a circle
      return Math.round(255 * (lightness - range * Math.max(-1, Math.min(place - 3, 9 - place, 1))));
    });
  });
}
