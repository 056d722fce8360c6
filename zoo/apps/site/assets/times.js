// Whether something else slowed repeated runs down.

const SCATTER = 1.25; // half of the runs take so many times as long as the fastest, or longer
const LEAST = 1; // milliseconds, below which a browser's clock is too coarse to tell

/** Whether the times of one file, without its first run, lie so far apart that others ran too. */
export function disturbed(times) {
  const sorted = [...times].sort((one, other) => one - other);
  return sorted[0] > LEAST && sorted[Math.floor(sorted.length / 2)] > SCATTER * sorted[0];
}
