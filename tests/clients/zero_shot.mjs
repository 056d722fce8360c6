// transformers.js on a folder of both towers: labels for a picture, and the vectors of texts and the
// picture by each tower alone; in Node and in a page.

/** {dtype: {answers, texts, image}}; `encode` makes text of tensors. */
export async function zeroShot(library, { name, picture, labels, dtypes }, encode) {
  const { AutoProcessor, AutoTokenizer, RawImage, SiglipTextModel, SiglipVisionModel } = library;
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const processor = await AutoProcessor.from_pretrained(name);
  const words = tokenizer(labels, { padding: "max_length", truncation: true });
  const pixels = await processor(await RawImage.read(picture));
  const found = {};
  for (const dtype of dtypes) {
    const ask = await library.pipeline("zero-shot-image-classification", name, { dtype });
    const text = await SiglipTextModel.from_pretrained(name, { dtype });
    const vision = await SiglipVisionModel.from_pretrained(name, { dtype });
    found[dtype] = {
      answers: await ask(picture, labels, { hypothesis_template: "This is a photo of {}." }),
      texts: encode((await text(words)).pooler_output),
      image: encode((await vision(pixels)).pooler_output),
    };
  }
  return found;
}
