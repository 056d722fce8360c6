// Vectors of a dataset, and which of them are nearest to one.

const VALUES = new Float32Array(1 << 16); // by the 16 bits of a half-precision number
for (let bits = 0; bits < VALUES.length; bits += 1) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 31
    ? (fraction ? NaN : Infinity)
    : exponent === 0
      ? fraction * 2 ** -24
      : (1 + fraction / 1024) * 2 ** (exponent - 15);
  VALUES[bits] = bits >> 15 ? -size : size;
}

/** Numbers of 32 bits from the bytes of float16, little-endian. */
export function halves(buffer) {
  return Float32Array.from(new Uint16Array(buffer), (bits) => VALUES[bits]);
}

/** A vector at length 1. */
export function unit(vector) {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.sqrt(sum) || 1;
  return Float32Array.from(vector, (value) => value / length);
}

/** The cosine of a vector with each of many, which lie behind each other; all have length 1. */
export function cosines(vector, many) {
  const dim = vector.length;
  return Float32Array.from({ length: many.length / dim }, (_, row) => {
    let sum = 0;
    for (let i = 0, place = row * dim; i < dim; i += 1, place += 1) sum += vector[i] * many[place];
    return sum;
  });
}

/** The places of numbers from the largest to the smallest, the first of equals first. */
export function ranked(numbers) {
  return Array.from(numbers, (_, place) => place).sort((one, other) =>
    numbers[other] - numbers[one] || one - other);
}
