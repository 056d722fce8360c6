// From strokes to 8 x 8 counts, as the data set was made: a digit of one bit that fills 32 x 32
// pixels from top to bottom, and how many of each 4 x 4 are inked.

const SIDE = 32;
const CELL = 4;
const PEN = 5; // pixels, as wide as the data set's lines are

function bounds(points) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    box[0] = Math.min(box[0], x);
    box[1] = Math.min(box[1], y);
    box[2] = Math.max(box[2], x);
    box[3] = Math.max(box[3], y);
  }
  return box;
}

/** The square of the distance from a point to a line from one point to another. */
function distance(x, y, [ax, ay], [bx, by]) {
  const [dx, dy] = [bx - ax, by - ay];
  const length = dx * dx + dy * dy;
  const along = length && Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / length));
  return (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2;
}

/** Counts from 0 to 16, by rows, of strokes that are lists of points [x, y]. */
export function toCounts(strokes) {
  const counts = new Uint8Array(64);
  const points = strokes.flat();
  if (points.length === 0) return counts;
  const [left, top, right, bottom] = bounds(points);
  const scale = (SIDE - PEN) / Math.max(right - left, bottom - top, 1e-6);
  const place = ([x, y]) => [
    (x - (left + right) / 2) * scale + SIDE / 2,
    (y - (top + bottom) / 2) * scale + SIDE / 2,
  ];
  const lines = strokes.flatMap((stroke) => {
    const placed = stroke.map(place);
    return placed.map((end, index) => [placed[Math.max(0, index - 1)], end]);
  });
  for (let y = 0; y < SIDE; y += 1) {
    for (let x = 0; x < SIDE; x += 1) {
      if (lines.some(([from, to]) => distance(x + 0.5, y + 0.5, from, to) <= (PEN / 2) ** 2)) {
        counts[8 * Math.floor(y / CELL) + Math.floor(x / CELL)] += 1;
      }
    }
  }
  return counts;
}

/** The picture of some counts: RGB values [8, 8, 3], white ink on black. */
export function toRgb(counts) {
  const grey = Uint8Array.from(counts, (count) => Math.round((count * 255) / 16));
  return Uint8Array.from({ length: 3 * grey.length }, (_, place) => grey[Math.floor(place / 3)]);
}
