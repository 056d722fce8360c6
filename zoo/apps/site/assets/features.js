// Compute colours from features: principal components, likeness, and differences.

// Five colours of viridis. Their order remains visible in grey and to colour-blind people.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const ROUNDS = 300; // of the power method

const dot = (one, other) => one.reduce((sum, value, i) => sum + value * other[i], 0);

/** Return the last `count` rows of [1, tokens, dim], which are the patches. */
export function patches({ dims: [, tokens, dim], data }, count) {
  return Array.from({ length: count }, (_, patch) => {
    const start = (tokens - count + patch) * dim;
    return Float64Array.from(data.subarray(start, start + dim));
  });
}

/** Return orthogonal vectors of length 1, computed with the Gram-Schmidt process. */
function orthonormal(vectors) {
  const made = [];
  for (const vector of vectors) {
    for (const other of made) {
      const share = dot(vector, other);
      for (let i = 0; i < vector.length; i += 1) vector[i] -= share * other[i];
    }
    const length = Math.sqrt(dot(vector, vector)) || 1;
    made.push(vector.map((value) => value / length));
  }
  return made;
}

/** Return the product of the transpose of a matrix, the matrix, and a vector. */
function squared(rows, vector) {
  const out = new Float64Array(vector.length);
  for (const row of rows) {
    let share = 0;
    for (let i = 0; i < out.length; i += 1) share += row[i] * vector[i];
    for (let i = 0; i < out.length; i += 1) out[i] += share * row[i];
  }
  return out;
}

/** Return the first principal components of the rows, at most three, and the mean of the rows. */
export function principal(rows) {
  const [{ length: dim }] = rows;
  const mean = new Float64Array(dim);
  for (const row of rows) row.forEach((value, i) => { mean[i] += value / rows.length; });
  const centred = rows.map((row) => row.map((value, i) => value - mean[i]));
  // Any start is suitable that is not orthogonal to a component.
  let directions = Array.from({ length: Math.min(3, dim, rows.length) }, (_, b) =>
    Float64Array.from({ length: dim }, (_, i) => Math.sin(1 + 7.3 * b + (b + 1.7) * i)));
  for (let round = 0; round < ROUNDS; round += 1) {
    directions = orthonormal(directions.map((vector) => squared(centred, vector)));
  }
  // The sign of a component is arbitrary. The largest weight is made positive.
  const larger = (one, other) => (Math.abs(other) > Math.abs(one) ? other : one);
  const signs = directions.map((vector) => Math.sign(vector.reduce(larger)));
  return { mean, directions: directions.map((vector, b) => vector.map((x) => signs[b] * x)) };
}

/** Return the scores of the rows along the directions: [rows, 3]. */
export function scores(rows, { mean, directions }) {
  const shifts = directions.map((direction) => dot(mean, direction));
  return rows.map((row) => directions.map((direction, i) => dot(row, direction) - shifts[i]));
}

/** Return the smallest and the largest number. */
export function limits(values) {
  return values.reduce(([low, high], each) => [Math.min(low, each), Math.max(high, each)],
    [Infinity, -Infinity]);
}

const level = (value, [low, high]) =>
  Math.min(1, Math.max(0, (value - low) / Math.max(high - low, 1e-12)));

/** Return scores as red, green and blue. `table` contains the limits of each. */
export function colours(rows, table) {
  const between = table[0].map((_, i) => limits(table.map((row) => row[i])));
  return rows.map((row) => row.map((value, i) => Math.round(255 * level(value, between[i]))));
}

/** Return a colour for each number, from the smallest to the largest. */
export function ramp(values, between) {
  return Array.from(values, (value) => {
    const place = level(value, between) * (RAMP.length - 1);
    const index = Math.min(RAMP.length - 2, Math.floor(place));
    return RAMP[index].map((band, i) =>
      Math.round(band + (RAMP[index + 1][i] - band) * (place - index)));
  });
}

export function cosine(one, other) {
  return dot(one, other) / Math.max(Math.sqrt(dot(one, one) * dot(other, other)), 1e-12);
}
