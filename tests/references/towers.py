"""Checkpoints of towers in transformers, in sizes of their own, with tokenizers of their own."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.references import clip, siglip2
from tests.seeded import nano, values_of
from zoo import info
from zoo.checkpoints.settings.processors import transformers_processor

LABELS = ("a cat", "a dog", "a red car", "the sky at night")
SENTENCES = ("This is a photo of a cat.", "a dog in a red car", "the sky at night, remote")


def tokenizer() -> Any:
    """A byte-pair encoding as Gemma's, of some sentences."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    made.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    made.post_processor = processors.TemplateProcessing("$A <eos>", special_tokens=[("<eos>", 1)])
    return made


def ending_tokenizer() -> Any:
    """Another, as CLIP's: the word that ends a text has the greatest number."""
    from tokenizers import processors

    made, ends = tokenizer(), ("<|startoftext|>", "<|endoftext|>")
    made.add_special_tokens([*ends])
    numbers = [(end, made.token_to_id(end)) for end in ends]
    made.post_processor = processors.TemplateProcessing(f"{ends[0]} $A {ends[1]}", None, numbers)
    return made


def tips_tokenizer() -> Any:
    """TIPSv2's of transformers, of the same words: texts in lower case."""
    from transformers import Tipsv2Tokenizer

    words = json.loads(tokenizer().to_str())["model"]
    return Tipsv2Tokenizer(words["vocab"], [tuple(pair) for pair in words["merges"]])


def save_towers(folder: Path) -> Any:
    """Write the checkpoint with all that goes along; the model in transformers."""
    config = nano(info("siglip2_vitb16_224_dual").config)
    model = siglip2.both(config, values_of(config))
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "GemmaTokenizer", "pad_token": "<pad>", "eos_token": "<eos>"}
    settings |= {"bos_token": "<bos>", "unk_token": "<unk>", "padding_side": "right"}
    # Without a mask: padding has a part in SigLIP's vectors.
    settings |= {"model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    how = info("siglip2_vitb16_224").preprocessing.with_size((64, 64))
    (folder / "preprocessor_config.json").write_text(json.dumps(transformers_processor(how)))
    return model


def save_clip(folder: Path) -> Any:
    """Write a checkpoint of CLIP with its tokenizer, which pads with the word that ends a text; the
    configuration of the network."""
    words, config = ending_tokenizer(), nano(info("clip_vitb32_dual").config)
    count = words.token_to_id("<|endoftext|>") + 1
    config = replace(config, words=replace(config.words, vocabulary=count))
    clip.both(config, values_of(config)).save_pretrained(folder)
    words.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<|endoftext|>"}')
    return config
