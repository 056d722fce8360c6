// A picture file as RGB values, without a change of its colours.

const LARGEST = 2 ** 24; // pixels; some browsers have no larger canvas

/** `{rgb [height, width, 3], height, width, scaled}`; what is transparent becomes white. */
export async function decode(file) {
  const picture = await createImageBitmap(file, { colorSpaceConversion: "none" }).catch(() => {
    throw new Error("the browser cannot read this file as a picture");
  });
  const scale = Math.min(1, Math.sqrt(LARGEST / (picture.width * picture.height)));
  const width = Math.max(1, Math.floor(picture.width * scale));
  const height = Math.max(1, Math.floor(picture.height * scale));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.fillStyle = "white";
  pen.fillRect(0, 0, width, height);
  pen.drawImage(picture, 0, 0, width, height);
  const { data } = pen.getImageData(0, 0, width, height);
  const rgb = new Uint8Array(3 * width * height);
  for (let from = 0, to = 0; from < data.length; from += 4, to += 3) {
    rgb[to] = data[from];
    rgb[to + 1] = data[from + 1];
    rgb[to + 2] = data[from + 2];
  }
  return { rgb, height, width, scaled: scale < 1 };
}
