"""Programs for a folder's card; they run as they stand, started in that folder."""

from __future__ import annotations

from zoo.manifest.schema import Manifest, Preprocessing


def python(manifest: Manifest) -> str:
    """With ONNX Runtime, numpy and Pillow."""
    name = "image" if manifest.input == "uint8" else "pixel_values"
    head = ["import numpy as np", "import onnxruntime", "from PIL import Image", ""]
    head.append('image = Image.open("photograph.png").convert("RGB")')
    if name == "image":
        body = [f"{name} = np.asarray(image)[None]"]
    else:
        body = pixels(manifest.preprocessing)
    tail = [
        "",
        'session = onnxruntime.InferenceSession("onnx/model.onnx")',
        "names = [output.name for output in session.get_outputs()]",
        f'outputs = dict(zip(names, session.run(None, {{"{name}": {name}}})))',
        "for name, value in outputs.items():",
        "    print(name, value.shape)",
    ]
    return "\n".join([*head, *body, *tail])


def pixels(how: Preprocessing) -> list[str]:
    """From `image` to `pixel_values`, in numpy and Pillow."""
    height, width = how.size
    method = f"Image.Resampling.{how.resample.upper()}"
    mean, std = (f"np.array({list(values)}, np.float32)" for values in (how.mean, how.std))
    lines = [f"mean, std = {mean}, {std}"]
    if how.rescale_first:
        lines += [
            "# Each channel is resized as floating-point numbers: nothing is rounded to 8 bits.",
            f"pixels = np.asarray(image, np.float32) * np.float32({how.rescale!r})",
            "channels = [Image.fromarray(pixels[..., channel]) for channel in range(3)]",
            f"channels = [channel.resize(({width}, {height}), {method}) for channel in channels]",
            "pixels = np.stack([np.asarray(channel) for channel in channels], axis=-1)",
        ]
    elif how.resize is None:
        lines += [
            f"image = image.resize(({width}, {height}), {method})",
            f"pixels = np.asarray(image, np.float32) * np.float32({how.rescale!r})",
        ]
    else:
        lines += [
            "short = min(image.size)",
            f"size = tuple(int({how.resize} * side / short) for side in image.size)",
            f"image = image.resize(size, {method})",
            f"left, top = (image.width - {width}) // 2, (image.height - {height}) // 2",
            f"image = image.crop((left, top, left + {width}, top + {height}))",
            f"pixels = np.asarray(image, np.float32) * np.float32({how.rescale!r})",
        ]
    return [*lines, "pixel_values = ((pixels - mean) / std).transpose(2, 0, 1)[None]"]


PRINT = "for (const [name, value] of Object.entries(outputs)) console.log(name, value.dims);"


def javascript(manifest: Manifest) -> str:
    """With transformers.js; for files that take images with onnxruntime-node."""
    if manifest.input == "uint8":
        return "\n".join(
            [
                'import { RawImage } from "@huggingface/transformers";',
                'import * as ort from "onnxruntime-node";',
                "",
                'const image = (await RawImage.read("photograph.png")).rgb();',
                "const shape = [1, image.height, image.width, 3];",
                'const session = await ort.InferenceSession.create("onnx/model.onnx");',
                'const input = new ort.Tensor("uint8", Uint8Array.from(image.data), shape);',
                "const outputs = await session.run({ image: input });",
                PRINT,
            ]
        )
    return "\n".join(
        [
            'import { AutoModel, AutoProcessor, RawImage, env } from "@huggingface/transformers";',
            "",
            "env.allowRemoteModels = false; // this folder, from the one above it",
            'env.localModelPath = "..";',
            f'const folder = "{manifest.model}";',
            "const processor = await AutoProcessor.from_pretrained(folder);",
            'const model = await AutoModel.from_pretrained(folder, { dtype: "fp32" });',
            'const image = await RawImage.read("photograph.png");',
            "const outputs = await model(await processor(image));",
            PRINT,
        ]
    )
