// From the outputs of queries to boxes of things: the arithmetic of zoo.tasks.boxes.

const LINE = 160; // a line of a box is one pixel for so many of the picture's shorter side

/** Things, the surest first, as many as there are queries: `{label, score, corners}`, corners being
 * left, top, right and bottom edge as shares of the picture; null if outputs say nothing of boxes.
 * `shown` is the part of `size` that is no padding. */
export function boxesOf({ logits, pred_boxes: boxes }, size, shown) {
  if (!boxes) return null;
  const [, queries, classes] = logits.dims;
  const [tall, wide] = size.map((side, axis) => side / shown[axis]);
  const scores = Array.from(logits.data, (logit) => 1 / (1 + Math.exp(-logit)));
  const best = scores.map((_, place) => place).sort((one, other) => scores[other] - scores[one]);
  return best.slice(0, queries).map((place) => {
    const [x, y, width, height] = boxes.data.subarray(4 * Math.floor(place / classes));
    const corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2];
    const shares = corners.map((edge, index) => edge * (index % 2 ? tall : wide));
    return { label: place % classes, score: scores[place], corners: shares };
  });
}

/** Pixels `[red, green, blue]` of `size` with the edges of boxes in their colours, the surest on
 * top; the picture fills all of them. */
export function outlined(pixels, [height, width], boxes, colours) {
  const drawn = pixels.slice();
  const line = Math.max(1, Math.round(Math.min(height, width) / LINE));
  for (let number = boxes.length - 1; number >= 0; number -= 1) {
    const [left, top, right, bottom] = boxes[number].corners.map((edge, index) =>
      Math.round(edge * (index % 2 ? height : width)));
    for (let y = Math.max(0, top); y < Math.min(height, bottom); y += 1) {
      for (let x = Math.max(0, left); x < Math.min(width, right); x += 1) {
        const inside = Math.min(x - left, right - 1 - x, y - top, bottom - 1 - y);
        if (inside < line) drawn[y * width + x] = colours[number];
      }
    }
  }
  return drawn;
}

/** The boxes that a place, as shares of height and width, lies in. */
export function boxesAt(boxes, [y, x]) {
  return boxes.filter(({ corners: [left, top, right, bottom] }) =>
    left <= x && x < right && top <= y && y < bottom);
}
