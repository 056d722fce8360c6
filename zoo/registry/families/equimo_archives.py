"""Equimo's archives on the hub, pinned: revision and sha256 as equimo 2.7.0 records them."""

from weights.sources.hub import HubFile

REPOSITORY = "poiretclement/equimo"
REVISION = "2ce35f6512516a67ff99c473423e6ca48aa0ae01"

DIGESTS = {
    "dinov2_vitb14": ("9596148aca74c60392bcf943d07d2c5a7b9cd2c0f8e0b6c3c58b34b726c6a2c0"),
    "dinov2_vitb14_reg": ("f23bdd8f9237f26c82d21cdb1f9741640e137ea20aa1e950ca6f35d546dd6455"),
    "dinov2_vitg14": ("94310e960c5aaf62782f2668e3253571a58f8ced8b45962742d0733aaa325501"),
    "dinov2_vitg14_reg": ("b02f261d26ba9bcbb33df02413c29f8bee803e859427c21141bde45de9a9e321"),
    "dinov2_vitl14": ("b434ca9842eeaf93d94aed9bf53a175de591c67c85d012f4bfd354b7c6ade9de"),
    "dinov2_vitl14_reg": ("c3833390ae8fdaf0886c064753f1243997c56ee1d4671e2f2231cd4316b37a53"),
    "dinov2_vits14": ("2120d785a8169ba4f9ecb0bcef95d1f5937c9f4411ad5a5909953edde3c562bf"),
    "dinov2_vits14_reg": ("bb54a89558a716dbdd24d27e0cfb1978274c2e57c09f8906e4b6a6026de92901"),
    "dinov3_vit7b16_pretrain_lvd1689m": (
        "968558db4e17555b43d49c3e3f56bfda41bbb4bc3c4086ba271c95d7a944a3bc"
    ),
    "dinov3_vit7b16_pretrain_sat493m": (
        "d38b6ea3fdfaa0cd0106ad4b324f44656e2983a571db9dfdd5e14dcb066ccdab"
    ),
    "dinov3_vitb16_pretrain_lvd1689m": (
        "af21a7e396329375498c6b40bd7247949d81320265ecfbe73e341651cb6fad67"
    ),
    "dinov3_vith16plus_pretrain_lvd1689m": (
        "97e98d8d10376f26f9a59ecf4bc0f5e753839f4c61bbb4841e56c01307abf075"
    ),
    "dinov3_vitl16_pretrain_lvd1689m": (
        "98a2b3330fb62f7ef96095452f260a1e80d5d4d250aa392ce22ab3ac31f70151"
    ),
    "dinov3_vitl16_pretrain_sat493m": (
        "9d34c2298e8bd14ec39ed274605208c35d3cafb49145097d188bf1d86f1f74fb"
    ),
    "dinov3_vits16_pretrain_lvd1689m": (
        "a732505eb55b4ba2c3a451286feb1a2a82c2930a165c5e7fc5290575acb9ffb8"
    ),
    "dinov3_vits16plus_pretrain_lvd1689m": (
        "7d5ed506394c91cf50892f15b85aa64fb33bc5944ba13c843c6bf64ec39b9fd1"
    ),
    "eupe_convnext_base": ("9721a635947a20ed4bc05464e3ff8c3c60e9f70a0644575a52f6c5da0e10d18d"),
    "eupe_convnext_small": ("c6dfbe1b0d62c5093253e36fddef71664f7d41cc2d126e1f2da21d4b48584d81"),
    "eupe_convnext_tiny": ("ee8240c213c0292b1a9e058c126d199f40f4b9e26c0c4a3079df8e11feddddef"),
    "eupe_vitb16": ("94abba8c013503db2b2271b5f30136c8d4e41c18b8baea2bf8a12706a4638efc"),
    "eupe_vits16": ("c72f73ea0eb00640d19c26313d4c657a5f402ef7780eac9be45cb6b2cfcb68bc"),
    "eupe_vitt16": ("0845fb8050825092cf5deaa52e38e56b549e9bafbc692fb8914d01bd34b294b3"),
    "siglip2_vitb16_224": ("c3976267a12e3b94b373e177a6b6ff97df05f5e40a213b6777d08eb79d5107e5"),
    "siglip2_vitb16_256": ("2e272ed187d051ec1e5966b25f305449bfe5f95ed2d0cc091af54045f5eea051"),
    "siglip2_vitb16_384": ("c7ec21d0dc98c9b6cecf8b5d96663c1e5a2db0e4c711b389d72985a62d20c614"),
    "siglip2_vitb16_512": ("c54bac303b701c61522a654d01e61bd93b7cf60377ec8df25be5da852ca7d757"),
    "siglip2_vitb32_256": ("d883032e448e0238ab5b0cf3feb327a15c497ba1dc1d967c1570b80cde525bf2"),
    "siglip2_vitgiantopt16_256": (
        "68f5b65142589ad07bcc476c847954a0cafdfc412c25a36f50d3345a5f595107"
    ),
    "siglip2_vitgiantopt16_384": (
        "60f93fac45575c954dd3789ceed52e6d39d52804db31e6fd80cff02d66a08e50"
    ),
    "siglip2_vitl16_256": ("9738c711d2397d8f1d986f73309a76bd3a3c0c26bff255f1c5bbe4d6bfaf6e2d"),
    "siglip2_vitl16_384": ("6cd8447e80681bb8e5613c80be47f0f2813b5bdab376167b082b478812257b4e"),
    "siglip2_vitl16_512": ("c467aa6e7782fd9a1f38706f247003614df79035f9ca7faa548816a0b3ff1fca"),
    "siglip2_vitso400m14_224": ("9773cc0d9e40042067cfff7b124812197b17c9e40cdf1c31805818d67bd08e0f"),
    "siglip2_vitso400m14_378": ("947465e5115ddd462516e36bb119d2660f2c0360bd5ba82cdcb57ba41641aae3"),
    "siglip2_vitso400m16_256": ("134bce3d1e34f3b05160887f067ff10a565e46002831b9bb78d537c817bd1168"),
    "siglip2_vitso400m16_384": ("b94b26a0ba04695909b5d9ba788aea7aea74f12988c7e56d61cd0c9b8091b6eb"),
    "siglip2_vitso400m16_512": ("32af619416ef99d134bf905330174421ea918b04e5c8d3cf91e5e1fff7e60614"),
    "tips_vitb14_hr": ("cb7be2c1d8e61a0f47012a52f76f8d76585a4acc33730946391fbe6483f7207d"),
    "tips_vitg14_hr": ("d18842f396b90f8d1fc9a3dcfdb2d9c7f348ad8375e372089cb2f9c38da3d91a"),
    "tips_vitg14_lr": ("81777284de86f6deb33928c1fd9ade1654ac9140fe118eb6a2cd76a7ac7811bd"),
    "tips_vitl14_hr": ("3e3521c6348d96512c164d38bc621cb62d53b44669ca514f396edc100fb0496b"),
    "tips_vits14_hr": ("3ed528566c34e6e166eb8aed7283a6fb7436b087d1f8999ae15d728c4d5f88aa"),
    "tips_vitso400m14_hr": ("923df14b7c1fd4e2f8a1fd35e99a67ed948e681c919d4758a73d959321bb18e1"),
}


def equimo_file(identifier: str) -> HubFile:
    """The archive of that name, pinned."""
    family = identifier.partition("_")[0]
    archive = f"models/default/{family}/{identifier}.tar.lz4"
    return HubFile(REPOSITORY, archive, REVISION, DIGESTS[identifier])
