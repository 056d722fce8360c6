"""Names in files that authors publish with their papers."""

from weights.mapping import Naming, Rule
from weights.namings import conventions
from weights.namings.meta_names import PLAIN_VIT_RULES
from weights.transforms import UNBATCH

# In the files, every block has the same frequencies as buffers. The model has them once.
VIT5 = Naming(
    conventions.ORIGINAL,
    (
        Rule("reg_tokens", ("reg_token",), UNBATCH),
        Rule("local_pos_embed.freqs", ("blocks.0.attn.rope.freqs",)),
        Rule("local_pos_embed.reg_freqs", ("blocks.0.attn.rope_reg.freqs",)),
        Rule("blocks.{i}.ls{n}.gamma", ("blocks.{i}.gamma_{n}",)),
        *PLAIN_VIT_RULES,
    ),
    copies=(
        ("blocks.{i}.attn.rope.freqs", "blocks.0.attn.rope.freqs"),
        ("blocks.{i}.attn.rope_reg.freqs", "blocks.0.attn.rope_reg.freqs"),
    ),
)
