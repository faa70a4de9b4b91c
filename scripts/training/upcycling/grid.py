"""The models of an ablation: the dense model and the variants of its experts. Does not require torch."""

import dataclasses
import itertools

from golden.request import Refused
from training.router.request import number

# A Llama without dropout whose tokens are bytes. moec can turn it into every architecture of plain softmax routers.
DENSE = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=False,
             max_position_embeddings=512, initializer_range=0.05, attention_bias=False, mlp_bias=False,
             bos_token_id=None, eos_token_id=None, pad_token_id=None,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
ARCH = "granitemoeshared"  # with or without a shared expert, so that all variants have the same kind of router
AXES = ("experts", "top_k", "shared", "router")


@dataclasses.dataclass(frozen=True)
class Variant:
    """One variant: number of experts, experts per token, hidden units of the shared expert, router initialisation as in
    `moec upcycle --router`."""

    experts: int
    top_k: int
    shared: int
    router: str

    @property
    def name(self):
        return f"e{self.experts}-k{self.top_k}-s{self.shared}-{self.router.replace(':', '')}"

    def command(self, moec, dense, out, start, seed):
        """Returns the moec command that makes this variant from a dense checkpoint."""
        return [str(moec), "upcycle", str(dense), "--out", str(out), "--arch", ARCH, "--experts", str(self.experts),
                "--top-k", str(self.top_k), "--granularity", str(start.granularity),
                "--shared-width", str(self.shared), "--init", start.init, "--router", self.router,
                "--noise", start.noise, "--seed", str(seed)]


@dataclasses.dataclass(frozen=True)
class Start:
    """Settings common to all variants: experts per group (each with a part of the hidden units), initialisation of experts,
    standard deviation of noise on their weights."""

    granularity: int
    init: str
    noise: str


def values(text, flag, least):
    found = [number(part, flag, int, least) for part in text.split(",")]
    if len(set(found)) != len(found):
        raise Refused(f"{flag} {text} has a value twice")
    return found


def variants_of(flags):
    """All combinations of the axes, validated before training. Raises Refused."""
    start = Start(number(flags.granularity, "--granularity", int, 1), flags.init, flags.noise)
    number(flags.noise, "--noise")
    routers = flags.router.split(",")
    if len(set(routers)) != len(routers):
        raise Refused(f"--router {flags.router} has a value twice")
    axes = (values(flags.experts, "--experts", 2), values(flags.top_k, "--top-k", 1),
            values(flags.shared, "--shared", 0), routers)
    variants = [Variant(*chosen) for chosen in itertools.product(*axes)]
    for variant in variants:
        check(variant, start)
    return variants, start


def check(variant, start):
    """Raises Refused for incompatible sizes."""
    groups, width = start.granularity, DENSE["intermediate_size"]
    for value, what in ((variant.experts, "experts"), (variant.top_k, "top-k"), (width - variant.shared, "routed units")):
        if value % groups:
            raise Refused(f"{variant.name}: {value} {what} are not a multiple of the granularity {groups}")
    if variant.top_k >= variant.experts:
        raise Refused(f"{variant.name}: a top-k of {variant.top_k} uses all {variant.experts} experts")
    if variant.shared >= width:
        raise Refused(f"{variant.name}: the shared expert uses all {width} hidden units of the dense model")
