"""Checkpoints of small towers in transformers, with trained tokenizers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.references import clip, siglip2
from tests.seeded import nano, values_of
from zoo import info
from zoo.checkpoints.settings.processors import transformers_processor

LABELS = ("a cat", "a dog", "a red car", "the sky at night")
"""Labels of zero-shot questions."""
SENTENCES = ("This is a photo of a cat.", "a dog in a red car", "the sky at night, remote")
"""Texts that the tokenizers are trained on."""


def tokenizer() -> Any:
    """Return a byte-pair encoding in Gemma's format, trained on a few sentences."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer_of_sentences = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer_of_sentences.normalizer = normalizers.Replace(" ", "▁")
    tokenizer_of_sentences.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    tokenizer_of_sentences.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    tokenizer_of_sentences.post_processor = processors.TemplateProcessing(
        "$A <eos>", special_tokens=[("<eos>", 1)]
    )
    return tokenizer_of_sentences


def ending_tokenizer() -> Any:
    """Return a tokenizer in CLIP's format, in which the end token has the greatest number."""
    from tokenizers import processors

    tokenizer_with_ends, end_tokens = tokenizer(), ("<|startoftext|>", "<|endoftext|>")
    tokenizer_with_ends.add_special_tokens([*end_tokens])
    numbers = [(end, tokenizer_with_ends.token_to_id(end)) for end in end_tokens]
    tokenizer_with_ends.post_processor = processors.TemplateProcessing(
        f"{end_tokens[0]} $A {end_tokens[1]}", None, numbers
    )
    return tokenizer_with_ends


def tips_tokenizer() -> Any:
    """Return transformers' tokenizer of TIPSv2 with the same vocabulary, for lower-case texts."""
    from transformers import Tipsv2Tokenizer

    vocabulary_model = json.loads(tokenizer().to_str())["model"]
    return Tipsv2Tokenizer(
        vocabulary_model["vocab"], [tuple(pair) for pair in vocabulary_model["merges"]]
    )


def save_towers(folder: Path) -> Any:
    """Write a checkpoint of both towers with its tokenizer and settings.

    Return transformers' model.
    """
    config = nano(info("siglip2_vitb16_224_dual").config)
    model = siglip2.both(config, values_of(config))
    model.save_pretrained(folder)
    tokenizer().save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "GemmaTokenizer", "pad_token": "<pad>", "eos_token": "<eos>"}
    settings |= {"bos_token": "<bos>", "unk_token": "<unk>", "padding_side": "right"}
    # There is no mask, because SigLIP's vectors depend on the padding.
    settings |= {"model_input_names": ["input_ids"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    preprocessing = info("siglip2_vitb16_224").preprocessing.with_size((64, 64))
    (folder / "preprocessor_config.json").write_text(
        json.dumps(transformers_processor(preprocessing))
    )
    return model


def save_clip(folder: Path) -> Any:
    """Write a checkpoint of CLIP with a tokenizer that pads with the end token.

    Return the configuration of the network.
    """
    tokenizer_with_ends, config = ending_tokenizer(), nano(info("clip_vitb32_dual").config)
    count = tokenizer_with_ends.token_to_id("<|endoftext|>") + 1
    config = replace(config, words=replace(config.words, vocabulary=count))
    clip.both(config, values_of(config)).save_pretrained(folder)
    tokenizer_with_ends.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<|endoftext|>"}')
    return config
