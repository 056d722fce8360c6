// From RGB of 8 bits to `pixel_values`, as zoo.preprocess has it: the same arithmetic as Pillow's.

const FILTERS = {
  bilinear: { support: 1, at: (x) => Math.max(0, 1 - Math.abs(x)) },
  // Cubic convolution with a = -1/2.
  bicubic: {
    support: 2,
    at: (x) => {
      const a = -0.5;
      x = Math.abs(x);
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
    },
  },
};

const PLACES = 2 ** 22; // of Pillow's coefficients of 8-bit values

/** Where output pixels from `from` on begin to read along an edge, and their coefficients there. */
function weights(edge, scaled, from, count, { support, at }) {
  const scale = edge / scaled;
  const unit = Math.max(scale, 1);
  return Array.from({ length: count }, (_, out) => {
    const centre = (from + out + 0.5) * scale;
    const start = Math.max(0, Math.trunc(centre - support * unit + 0.5));
    const end = Math.min(edge, Math.trunc(centre + support * unit + 0.5));
    const found = Float64Array.from({ length: end - start }, (_, index) =>
      at((index + start - centre + 0.5) * (1 / unit)));
    const total = found.reduce((sum, each) => sum + each, 0);
    return { start, found: found.map((each) => each / total) };
  });
}

/** Of 8-bit values Pillow keeps whole numbers from 0 to 255, of others 32-bit floats. */
const BYTES = {
  coefficients: (found) => found.map((each) => Math.trunc(each * PLACES + (each < 0 ? -0.5 : 0.5))),
  first: PLACES / 2,
  last: (sum) => Math.min(255, Math.max(0, Math.floor(sum / PLACES))),
};
const FLOATS = { coefficients: (found) => found, first: 0, last: (sum) => sum };

/** Resize [height, width] values along an axis: 0 changes the height, 1 the width. Of the `scaled`
 * pixels `count` are computed, from `from` on. */
function pass(values, size, axis, scaled, from, count, filter, { coefficients, first, last }) {
  const [height, width] = size;
  const table = weights(size[axis], scaled, from, count, filter);
  for (const each of table) each.found = coefficients(each.found);
  const [tall, wide] = axis ? [height, count] : [count, width];
  const step = axis ? 1 : width;
  const out = new Float32Array(tall * wide);
  for (let y = 0; y < tall; y += 1) {
    for (let x = 0; x < wide; x += 1) {
      const { start, found } = table[axis ? x : y];
      let place = axis ? y * width + start : start * width + x;
      let sum = first;
      for (let index = 0; index < found.length; index += 1, place += step) {
        sum += values[place] * found[index];
      }
      out[y * wide + x] = last(sum);
    }
  }
  return out;
}

/** Resize one channel from one [height, width] to another, of which a part is computed: `count`
 * [height, width] from `start` [top, left] on. */
function resize(values, from, to, start, count, filter, kind) {
  const less = from.map((side, axis) => side - to[axis]);
  // Pillow 13 begins with the columns where much more height goes.
  const order = less[0] > 0 && less[0] > 2 * less[1] ? [0, 1] : [1, 0];
  const size = [...from];
  for (const axis of order) {
    if (size[axis] === to[axis] && count[axis] === to[axis]) continue;
    values = pass(values, size, axis, to[axis], start[axis], count[axis], filter, kind);
    size[axis] = count[axis];
  }
  return values;
}

/** Python's round: halves go to the even neighbour. */
function round(value) {
  const low = Math.floor(value);
  if (value - low !== 0.5) return Math.round(value);
  return low % 2 ? low + 1 : low;
}

/** What a picture is resized to before the crop; all sizes are [height, width]. */
export function resizedSize([height, width], how, size) {
  if (how.resize === null) return size;
  const stretched = Array.isArray(how.resize);
  const edges = stretched ? how.resize : [how.resize, how.resize];
  const covering = size.map((side, axis) => round((edges[axis] * side) / how.size[axis]));
  if (stretched) return covering;
  return [
    Math.max(covering[0], Math.floor((covering[1] * height) / width)),
    Math.max(covering[1], Math.floor((covering[0] * width) / height)),
  ];
}

/** The largest of a picture's proportions that fits into `size`. */
export function sizeInside([height, width], [tall, wide]) {
  if (height * wide > width * tall) {
    const exact = (tall * width) / height;
    return [Math.trunc((exact * height) / width), Math.max(1, round(exact))];
  }
  const exact = (wide * height) / width;
  return [Math.max(1, round(exact)), Math.trunc((exact * width) / height)];
}

/** `pixel_values` [3, ...size] of RGB values [height, width, 3]. */
export function pixelValues(rgb, height, width, how, size) {
  const rescale = Math.fround(how.rescale);
  const sides = [height, width];
  const scaled = how.padded ? sizeInside(sides, size) : resizedSize(sides, how, size);
  const half = how.crop_rounding === "half_even" ? round : Math.floor;
  const start = scaled.map((side, axis) => (how.padded ? 0 : half((side - size[axis]) / 2)));
  const count = how.padded ? scaled : size;
  const filter = FILTERS[how.resample];
  const out = new Float32Array(3 * size[0] * size[1]);
  let to = 0;
  for (let plane = 0; plane < 3; plane += 1) {
    const values = new Float32Array(height * width);
    const factor = how.rescale_first ? rescale : 1;
    values.forEach((_, place) => { values[place] = rgb[3 * place + plane] * factor; });
    const kind = how.rescale_first ? FLOATS : BYTES;
    const resized = resize(values, [height, width], scaled, start, count, filter, kind);
    const [mean, std] = [Math.fround(how.mean[plane]), Math.fround(how.std[plane])];
    for (let y = 0; y < size[0]; y += 1) {
      for (let x = 0; x < size[1]; x += 1, to += 1) {
        // What is padded is black.
        const value = y < count[0] && x < count[1] ? resized[y * count[1] + x] : 0;
        const level = how.rescale_first ? value : Math.fround(value * rescale);
        out[to] = Math.fround(level - mean) / std;
      }
    }
  }
  return out;
}
