// transformers.js on a folder of both towers: labels for a picture, and the vectors of texts and the
// picture by each tower alone; in Node and in a page.

/** {dtype: {answers, texts, image}} of SigLIP or `clip`; `encode` makes text of tensors. */
export async function zeroShot(library, { name, picture, labels, dtypes, clip }, encode) {
  const { AutoProcessor, AutoTokenizer, RawImage } = library;
  const Text = library[clip ? "CLIPTextModelWithProjection" : "SiglipTextModel"];
  const Vision = library[clip ? "CLIPVisionModelWithProjection" : "SiglipVisionModel"];
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const processor = await AutoProcessor.from_pretrained(name);
  const words = tokenizer(labels, { padding: clip ? true : "max_length", truncation: true });
  const pixels = await processor(await RawImage.read(picture));
  const found = {};
  for (const dtype of dtypes) {
    const ask = await library.pipeline("zero-shot-image-classification", name, { dtype });
    const text = await Text.from_pretrained(name, { dtype });
    const vision = await Vision.from_pretrained(name, { dtype });
    found[dtype] = {
      answers: await ask(picture, labels, { hypothesis_template: "This is a photo of {}." }),
      texts: encode((await text(words))[clip ? "text_embeds" : "pooler_output"]),
      image: encode((await vision(pixels))[clip ? "image_embeds" : "pooler_output"]),
    };
  }
  return found;
}
