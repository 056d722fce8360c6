"""What a vision transformer repeats."""

import equinox as eqx
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.attention import Attention, Mask
from zoo.architectures.parts.feed_forward import FeedForward, MakeFeedForward
from zoo.architectures.parts.layers import LayerScale, MakeNorm, Norm, pointwise
from zoo.architectures.parts.rope import Rotation


class Block(eqx.Module):
    """Pre-norm transformer block: `y = x + ls1(attn(prenorm(x)))`, `z = y + ls2(mlp(norm(y)))`.

    `prenorm` and `norm` are what papers and other code call norm1 and norm2, the norms before
    attention and before the feed-forward network; `ls1` and `ls2` are the layer scales.

    Sources: Dosovitskiy et al., 2021, arXiv:2010.11929; for the scales Touvron et al., 2021,
    arXiv:2103.17239.
    """

    prenorm: Norm
    attn: Attention
    ls1: LayerScale | None
    norm: Norm
    mlp: FeedForward
    ls2: LayerScale | None

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        *,
        ffn: MakeFeedForward,
        norm: MakeNorm,
        qkv_bias: bool,
        qk_norm: MakeNorm | None,
        layer_scale: float | None,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `dim`, `heads`, `qkv_bias`, `qk_norm`: as for `Attention`.
        - `hidden`: channels inside the feed-forward network.
        - `ffn`: makes it: `Mlp`, `SwiGlu`, `partial(Mlp, activation=gelu_tanh)`.
        - `norm`: makes both norms: `eqx.nn.LayerNorm`, `partial(eqx.nn.RMSNorm, eps=1e-6)`.
        - `layer_scale`: what the factors of both branches begin with; None leaves them out.
        """
        attn_key, mlp_key = jr.split(key)
        self.prenorm = norm(dim)
        self.attn = Attention(dim, heads, qkv_bias=qkv_bias, qk_norm=qk_norm, key=attn_key)
        self.norm = norm(dim)
        self.mlp = ffn(dim, hidden, key=mlp_key)
        self.ls1 = None if layer_scale is None else LayerScale(dim, layer_scale)
        self.ls2 = None if layer_scale is None else LayerScale(dim, layer_scale)

    @eqx.filter_jit  # traced once for all blocks
    def __call__(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> Float[Array, "tokens dim"]:
        """**Arguments** and **returns** as `Attention`."""
        return self.with_weights(x, rotation, mask)[0]

    @eqx.filter_jit
    def with_weights(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> tuple[Float[Array, "tokens dim"], Float[Array, "heads tokens tokens"]]:
        """The same, and how much each token attends to each."""
        attended, weights = self.attn.with_weights(pointwise(self.prenorm, x), rotation, mask)
        x = x + (attended if self.ls1 is None else self.ls1(attended))
        fed = self.mlp(pointwise(self.norm, x))
        return x + (fed if self.ls2 is None else self.ls2(fed)), weights
