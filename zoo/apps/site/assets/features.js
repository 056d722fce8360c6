// What is drawn of features: principal components, likeness, and how far two files are apart.

// Five colours of viridis, which stay in order in grey and for the colour blind.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const BLOCK = 8; // directions that are sought together, of which the first three are kept
const ROUNDS = 100;

const dot = (one, other) => {
  let sum = 0;
  for (let index = 0; index < one.length; index += 1) sum += one[index] * other[index];
  return sum;
};

/** The last `count` rows of [1, tokens, dim]: the patches. */
export function patches({ dims, data }, count) {
  const [, tokens, dim] = dims;
  return Array.from({ length: count }, (_, patch) => {
    const start = (tokens - count + patch) * dim;
    return Float64Array.from(data.subarray(start, start + dim));
  });
}

/** Gram and Schmidt: make vectors orthogonal and of length 1, in place. */
function orthonormalise(vectors) {
  vectors.forEach((vector, index) => {
    for (const other of vectors.slice(0, index)) {
      const share = dot(vector, other);
      for (let i = 0; i < vector.length; i += 1) vector[i] -= share * other[i];
    }
    const length = Math.sqrt(dot(vector, vector)) || 1;
    for (let i = 0; i < vector.length; i += 1) vector[i] /= length;
  });
}

/** The product of a matrix's transpose, the matrix, and a vector. */
function squared(rows, vector) {
  const out = new Float64Array(vector.length);
  for (const row of rows) {
    const share = dot(row, vector);
    for (let i = 0; i < out.length; i += 1) out[i] += share * row[i];
  }
  return out;
}

/** Of a small symmetric matrix, by Jacobi's rotations; that of the largest eigenvalue first. */
function eigenvectors(matrix) {
  const size = matrix.length;
  const turned = matrix.map((_, i) => matrix.map((_, j) => Number(i === j)));
  for (let sweep = 0; sweep < 30; sweep += 1) {
    for (let p = 0; p < size; p += 1) {
      for (let q = p + 1; q < size; q += 1) {
        if (matrix[p][q] === 0) continue;
        const angle = Math.atan2(2 * matrix[p][q], matrix[q][q] - matrix[p][p]) / 2;
        const [c, s] = [Math.cos(angle), Math.sin(angle)];
        const rotate = (table, i, j, a, b) => {
          const [x, y] = [table[i][j], table[a][b]];
          table[i][j] = c * x - s * y;
          table[a][b] = s * x + c * y;
        };
        for (let k = 0; k < size; k += 1) rotate(matrix, k, p, k, q);
        for (let k = 0; k < size; k += 1) rotate(matrix, p, k, q, k);
        for (let k = 0; k < size; k += 1) rotate(turned, k, p, k, q);
      }
    }
  }
  const order = matrix.map((_, i) => i).sort((i, j) => matrix[j][j] - matrix[i][i]);
  return order.map((column) => turned.map((row) => row[column]));
}

/** The directions in which rows differ most, up to three, and the rows' mean. */
export function principal(rows) {
  const dim = rows[0].length;
  const mean = new Float64Array(dim);
  for (const row of rows) row.forEach((value, i) => { mean[i] += value / rows.length; });
  const centred = rows.map((row) => row.map((value, i) => value - mean[i]));
  const count = Math.min(BLOCK, dim, rows.length);
  // Any start will do that is no symmetry of the rows.
  let block = Array.from({ length: count }, (_, b) =>
    Float64Array.from({ length: dim }, (_, i) => Math.sin(1 + 7.3 * b + (b + 1.7) * i)));
  for (let round = 0; round < ROUNDS; round += 1) {
    orthonormalise(block);
    block = block.map((vector) => squared(centred, vector));
  }
  orthonormalise(block);
  const images = block.map((vector) => squared(centred, vector));
  const small = block.map((one) => images.map((other) => dot(one, other)));
  const directions = eigenvectors(small).slice(0, 3).map((shares) => {
    const out = new Float64Array(dim);
    shares.forEach((share, b) => block[b].forEach((value, i) => { out[i] += share * value; }));
    // The sign is left open: the largest weight is made positive.
    const larger = (one, other) => (Math.abs(other) > Math.abs(one) ? other : one);
    return out.reduce(larger) < 0 ? out.map((value) => -value) : out;
  });
  return { mean, directions };
}

/** Scores of rows along directions: [rows, 3]. */
export function scores(rows, { mean, directions }) {
  const shifts = directions.map((direction) => dot(mean, direction));
  return rows.map((row) => directions.map((direction, i) => dot(row, direction) - shifts[i]));
}

/** The least and the largest of each column. */
export function limits(table) {
  return table[0].map((_, i) => table.reduce(
    ([low, high], row) => [Math.min(low, row[i]), Math.max(high, row[i])],
    [Infinity, -Infinity]));
}

const level = (value, [low, high]) =>
  Math.min(1, Math.max(0, (value - low) / Math.max(high - low, 1e-12)));

/** Scores as red, green and blue between limits. */
export function colours(table, between) {
  return table.map((row) => row.map((value, i) => Math.round(255 * level(value, between[i]))));
}

/** Numbers as colours from the smallest to the largest. */
export function ramp(values, between) {
  return values.map((value) => {
    const place = level(value, between) * (RAMP.length - 1);
    const index = Math.min(RAMP.length - 2, Math.floor(place));
    return RAMP[index].map((band, i) =>
      Math.round(band + (RAMP[index + 1][i] - band) * (place - index)));
  });
}

export function cosine(one, other) {
  return dot(one, other) / Math.max(Math.sqrt(dot(one, one) * dot(other, other)), 1e-12);
}

/** The largest absolute difference of two tensors, and the cosine of all values together. */
export function apart(one, other) {
  let most = 0;
  for (let i = 0; i < one.length; i += 1) most = Math.max(most, Math.abs(one[i] - other[i]));
  return { most, cosine: cosine(one, other) };
}
