// Compute boxes and areas from a network's outputs. The pipelines of transformers.js are not used,
// because their answers differ from those of `zoo run`: the pipeline for boxes applies a softmax with
// a background class, and the pipeline for areas extrapolates logits at the edges and keeps pixels
// with a low score.

import { model, transformers } from "./model.js";

const SURE = 0.8; // of its class a query has to be more than this,
const LEFT = 0.8; // and more than this share of its mask has to be left to it
const LIGHTNESS = [0.55, 0.4, 0.7]; // of the first, second and third segment of a class

/** Return boxes `{label, score, corners}`, best score first, one for each query. The corners are the
 * left, top, right and bottom edge as fractions of the network's input. */
export async function boxesOf(outputs) {
  const { RTDetrImageProcessor } = await transformers();
  const processor = new RTDetrImageProcessor({});
  const [{ scores, classes, boxes }] =
    processor.post_process_object_detection(outputs, 0, null, true);
  return scores.map((score, i) => ({ label: classes[i], score, corners: [...boxes[i]] }))
    .sort((one, other) => other.score - one.score).slice(0, outputs.logits.dims[1]);
}

/** Return the class of every pixel from logits of patches, and the share of each class. */
async function semantic(logits, size) {
  const { SegformerImageProcessor, interpolate_4d } = await transformers();
  const resized = await interpolate_4d(logits, { size });
  const processor = new SegformerImageProcessor({});
  const [{ segmentation: { data }, labels }] =
    processor.post_process_semantic_segmentation({ logits: resized }, null);
  const segments = labels.map((label) => ({
    label, score: data.filter((each) => each === label).length / data.length,
  })).sort((one, other) => other.score - one.score);
  const numbers = new Map(segments.map(({ label }, number) => [label, number]));
  return { areas: data.map((label) => numbers.get(label)), segments, size };
}

/** Return segments that do not overlap, without the padding of the picture. */
async function panoptic(classes, masks, size, shown) {
  const { interpolate_4d, softmax, stack } = await transformers();
  const queries = classes[0].tolist().map((row, query) => {
    const shares = softmax(row);
    const score = Math.max(...shares);
    return { label: shares.indexOf(score), score, query };
  }).filter(({ label, score }) => label !== classes.dims[2] - 1 && score > SURE);
  const areas = new Int32Array(shown[0] * shown[1]).fill(-1);
  const segments = [];
  if (queries.length === 0) return { areas, segments, size: shown };
  const kept = stack(queries.map(({ query }) => masks[0][query]), 0).unsqueeze(0);
  const resized = await interpolate_4d(kept, { size });
  const [top, left] = shown.map((side) => [0, side]);
  const parts = resized.slice(0, null, top, left).sigmoid().data;
  const part = (number, place) => parts[number * areas.length + place];
  const best = areas.map((_, place) => queries.reduce((one, { score }, other) =>
    (score * part(other, place) > queries[one].score * part(one, place) ? other : one), 0));
  queries.forEach(({ label, score }, number) => {
    const own = best.map((one) => Number(one === number));
    const whole = best.map((_, place) => Number(part(number, place) >= 0.5));
    const sum = (flags) => flags.reduce((total, flag) => total + flag, 0);
    const seen = own.map((flag, place) => flag & whole[place]);
    if (!sum(seen) || sum(own) / sum(whole) <= LEFT) return;
    seen.forEach((flag, place) => { if (flag) areas[place] = segments.length; });
    segments.push({ label, score });
  });
  return { areas, segments, size: shown };
}

/** Return the number of the segment of every pixel of `size`, -1 for none, and `{label, score}` of
 * each segment. Return null if the outputs contain no areas. */
export async function areasOf(outputs, shown) {
  const { class_queries_logits: classes, masks_queries_logits: masks, logits } = outputs;
  if (masks) return panoptic(classes, masks, model.size, shown);
  return logits?.dims.length === 4 ? semantic(logits, model.size) : null;
}

/** Return a colour [red, green, blue] for each segment. Segments of one class have lighter and darker
 * colours of their class. */
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
