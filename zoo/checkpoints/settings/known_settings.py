"""Tables of the settings of transformers and timm that do not change the answers of a network, by
reason.

Every setting of a class that is read has to be in a table
(`tests/zoo/checkpoints/test_known_settings.py`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weights.errors import MappingError
from zoo.architectures.architecture import Config
from zoo.architectures.config_settings import TIMM, names_in_settings
from zoo.architectures.kinds import find_unsupported_option
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.settings.settings_files import CONFIG

TRAINING_SETTINGS = (
    *("attention_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob", "dropout"),
    *("drop_path_rate", "initializer_factor", "initializer_range", "layerscale_value"),
    *("layer_scale_init_value", "logit_scale_init_value", "pos_embed_jitter", "pos_embed_rescale"),
    *("pos_embed_shift", "use_mask_token", "encoder_stride", "class_weight", "dice_weight"),
    *("mask_weight", "no_object_weight", "importance_sample_ratio", "oversample_ratio"),
    "train_num_points",
)
"""Settings that only training uses, and initial values of parameters."""

SETTINGS_IN_TENSORS = (
    *("hidden_size", "patch_size", "image_size", "num_channels", "num_stages", "num_layers"),
    *("projection_size", "key_bias", "query_bias", "value_bias", "mlp_bias", "proj_bias"),
    *("vision_use_head", "use_swiglu_ffn", "use_gated_mlp", "attention_bias"),
    *("reassemble_hidden_size", "num_classes", "num_features", "num_labels"),
)
"""Settings that repeat what the shapes of tensors determine. Fields of a network's configuration
are not listed."""

LOADING_SETTINGS = (
    *("_name_or_path", "dtype", "torch_dtype", "transformers_version", "label2id", "return_dict"),
    *("output_attentions", "output_hidden_states", "is_encoder_decoder", "is_decoder"),
    *("chunk_size_feed_forward", "stage_names", "out_features", "_out_features", "_out_indices"),
    *("apply_layernorm", "reshape_hidden_states", "auto_map", "_attn_implementation"),
    *("pooler_act", "pooler_output_size", "use_cache", "tie_word_embeddings", "torchscript"),
    *("pad_token_id", "bos_token_id", "attn_implementation", "label_descriptions", "sep_token_id"),
    "do_pooling",
    *(
        "finetuning_task",
        "labels",
        "task_specific_params",
        "add_cross_attention",
        "cross_attention_hidden_size",
    ),
)
"""Settings of loading and calling a model, of further outputs, and of the tokenizer."""

IGNORED_SETTINGS = frozenset((*TRAINING_SETTINGS, *SETTINGS_IN_TENSORS, *LOADING_SETTINGS))
"""Settings of transformers that do not change the answers of a network."""

ALLOWED_VALUES: Mapping[str, tuple[Any, ...]] = {
    "pooling_epsilon": (1e-8,),
    "scale_sqrt_depth": (True,),
    "global_pool": ("", "token", "avg", "map"),
}
"""Settings that would mean another network, with the values that do not."""

COMPARED_SETTINGS = ("rope_theta", "rope_parameters")
"""Settings that are compared with the network's."""

TIMM_FILE_SETTINGS = (
    *("url", "file", "hf_hub_id", "hf_hub_filename", "source", "architecture", "custom_load"),
    *("state_dict", "num_classes", "label_offset", "label_names", "label_descriptions"),
    *("pool_size", "test_pool_size", "first_conv", "classifier", "license", "description"),
    *("origin_url", "paper_name", "paper_ids", "notes", "min_input_size", "fixed_input_size"),
    *("test_input_size", "test_crop_pct"),  # used by benchmarks only
)
"""Settings in `pretrained_cfg` of timm that describe a file and its source."""

TIMM_IGNORED_SETTINGS = frozenset(
    (
        # Settings that only training uses, and initial values of parameters.
        *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate"),
        *("drop_path_rate", "weight_init", "fix_init", "init_values", "ls_init_value"),
        *("head_init_scale", "rope_shift_coords", "rope_jitter_coords", "rope_rescale_coords"),
        # Settings that repeat what the names and shapes of tensors determine.
        *("img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "depths"),
        *("dims", "mlp_ratio", "qkv_bias", "qkv_fused", "qk_norm", "scale_attn_norm"),
        *("scale_mlp_norm", "proj_bias", "class_token", "pos_embed", "no_embed_class"),
        *("reg_tokens", "num_reg_tokens", "pre_norm", "fc_norm", "final_norm", "swiglu_mlp"),
        *("swiglu_align_to", "scale_mlp", "scale_attn_inner", "kernel_sizes", "stem_type"),
        *("head_hidden_size", "conv_mlp", "conv_bias", "use_grn", "use_abs_pos_emb"),
        *("use_pre_transformer_norm", "use_post_transformer_norm", "use_fc_norm"),
        *("attn_only_layer_scale", "num_kv_heads", "attn_pool_mlp_ratio"),
        # Settings of loading and calling a network; `global_pool` is a setting of its own too.
        *("dynamic_img_size", "strict_img_size", "always_partition", "device", "dtype"),
        *("ref_feat_shape", "global_pool"),
    )
)
"""Arguments of timm's networks in `model_args` that change nothing. Fields of configurations are
not listed."""

TIMM_ALLOWED_VALUES: Mapping[str, tuple[Any, ...]] = {
    "act_layer": (None, "gelu"),
    "norm_layer": (None, "layernorm"),
    "norm_eps": (None, 1e-6),
    "pool_include_prefix": (False,),
    "dynamic_img_pad": (False,),
    "output_stride": (32,),
    "head_norm_first": (False,),
    "embed_layer": (None,),
    "embed_norm_layer": (None,),
    "block_fn": (None,),
    "mlp_layer": (None,),
    "attn_layer": (None,),
    "attn_type": ("eva", "rope"),
    "attn_pool_num_heads": (None,),
    "use_rot_pos_emb": (True, False),
    "use_post_norm": (False,),
    "rope_type": ("cat", "dinov3"),
    "rope_grid_offset": (0, 0.0),
    "rope_grid_indexing": ("ij",),
    "rope_temperature": (100, 100.0),
    "rope_rotate_half": (True, False),
    "rope_mrope_section": (None,),
}
"""Arguments of timm's networks that would mean another network, with the values that do not."""


USUAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    # Settings of transformers.
    **{"proj_bias": (True,), "mlp_bias": (True,), "use_mask_token": (True,)},
    **{"vision_use_head": (True,), "attention_bias": (True,), "use_swiglu_ffn": (False,)},
    # Settings of timm.
    **{"class_token": (True,), "pos_embed": ("learn",), "no_embed_class": (False,)},
    **{"reg_tokens": (0,), "num_reg_tokens": (0, 4), "pre_norm": (False,), "final_norm": (True,)},
    **{"fc_norm": (None, False), "use_fc_norm": (None, False), "qk_norm": (False,)},
    **{"scale_attn_norm": (False,), "scale_mlp_norm": (False,), "scale_mlp": (False,)},
    **{"scale_attn_inner": (False,), "swiglu_mlp": (False, True), "use_grn": (False,)},
    **{"attn_only_layer_scale": (False,), "num_kv_heads": (None,), "stem_type": ("patch",)},
    **{"use_post_transformer_norm": (None, True), "use_pre_transformer_norm": (False,)},
    **{"use_abs_pos_emb": (False,), "head_hidden_size": (None,), "conv_bias": (True,)},
    **{"conv_mlp": (False,), "kernel_sizes": (7,), "attn_pool_mlp_ratio": (None,)},
    **{"init_values": (None,), "qkv_bias": (True,), "global_pool": ("", "token", "avg")},
}
"""Settings that the tensors determine, with their usual values. With other values a checkpoint has
other tensors."""


def describe_unusual_options(settings: Settings | None) -> str:
    """Return a sentence about settings with other values than those in `USUAL_VALUES`, or an empty
    string if there are none.

    It is appended to the message that a checkpoint fits no network.
    """
    if settings is None:
        return ""
    values = {**settings.model_args}
    for part in _settings_with_towers(settings):
        values |= part.model_dump(mode="json", exclude_unset=True)
    unusual = [
        f"{name} = {ascii(values[name])[:40]}"
        for name, usual_values in USUAL_VALUES.items()
        if name in values and values[name] not in usual_values
    ]
    return f" Its settings ask for {', '.join(unusual)}, which may be why." if unusual else ""


def _settings_with_towers(settings: Settings) -> Iterator[Settings]:
    """Yield the settings of a checkpoint, and the nested settings of its towers and its
    backbone."""
    nested = (settings.vision_config, settings.text_config, settings.backbone_config)
    yield from (part for part in (settings, *nested) if part is not None)


def find_unknown_settings(
    settings: Settings, config: Config, other_names: Iterable[str] = ()
) -> list[str]:
    """Return the names of the settings in `config.json` that the zoo does not know, so that they
    had no effect.

    A setting is known if it is a field of the network's configuration `config`, if it is in a table
    of this module, or if it is one of `other_names`, the settings of the network's class in
    transformers. Settings of towers and of the backbone are included, by their own names. Nested
    settings of timm are named as in `pretrained_cfg.NAME` and `model_args.NAME`.
    """
    field_names = names_in_settings(config)
    expected = {
        *Settings.model_fields,
        *IGNORED_SETTINGS,
        *ALLOWED_VALUES,
        *COMPARED_SETTINGS,
        *field_names,
        *other_names,
    }
    names = [name for part in _settings_with_towers(settings) for name in part.model_extra or {}]
    unknown = [name for name in dict.fromkeys(names) if name not in expected]
    pictures = settings.pretrained_cfg and settings.pretrained_cfg.model_extra
    unknown += [
        f"pretrained_cfg.{name}" for name in pictures or () if name not in TIMM_FILE_SETTINGS
    ]
    argument_names = names_in_settings(config, TIMM)
    arguments = {*TIMM_IGNORED_SETTINGS, *TIMM_ALLOWED_VALUES, *argument_names}
    return unknown + [f"model_args.{name}" for name in settings.model_args if name not in arguments]


def check_supported_network(settings: Settings) -> None:
    """Check that no setting stands for a network that the zoo does not have.

    **Raises** `MappingError` for a setting with which its library computes another network.
    """
    for part in _settings_with_towers(settings):
        _check_allowed_values(part.model_dump(mode="json", exclude_unset=True), ALLOWED_VALUES)
    _check_allowed_values(settings.model_args, TIMM_ALLOWED_VALUES)


def check_supported_architecture(settings: Settings | None) -> None:
    """Check that the settings name no architecture of timm with an option that the zoo lacks.

    **Raises** `MappingError` if they do. Nothing is checked without settings (None).
    """
    if settings is not None and (option := find_unsupported_option(settings.architecture)):
        raise MappingError(
            f"{CONFIG} beside the checkpoint says that it is timm's "
            f"{ascii(settings.architecture)[1:-1][:60]}, which has an option ({option}) that no "
            "network of the zoo has: export the whole of it with `converter.to_onnx`."
        )


def _check_allowed_values(
    values: Mapping[str, Any], allowed_values: Mapping[str, tuple[Any, ...]]
) -> None:
    """Check the values of settings against the values that are allowed for each. A missing setting
    counts as allowed.

    **Raises** `MappingError` for a setting with another value.
    """
    for name, allowed in allowed_values.items():
        if values.get(name, allowed[0]) not in allowed:
            raise MappingError(
                f"{CONFIG} beside the checkpoint says that {name} is "
                f"{ascii(values[name])[:60]}, and the zoo has no network that does that."
            )
