#!/usr/bin/env python3
"""Drafts a family descriptor from a model class of transformers. A person completes it (models/families/ADD_A_FAMILY.md).

    scripts/propose_family.py MODEL_TYPE                 prints the draft
    scripts/propose_family.py MODEL_TYPE --compare       prints how it differs from models/families/MODEL_TYPE.json

The draft consists of what the existing descriptors imply: a field of the config class has the concept that other families
read from a key of this name, a tensor the role that other families give to this name. Routing, norms, sinks and gates
follow from the names of tensors and from calls in the router's source. "unknown" lists fields and tensors without a
counterpart. Values that the class computes, layers by pattern, and everything that only the code states are not derived.

Requires PyTorch and transformers, of the version in models/families/class_defaults.json.
"""

import argparse
import collections
import inspect
import json
import re
import sys
from pathlib import Path

import torch
import transformers

FAMILIES = Path(__file__).resolve().parents[1] / "models/families"
# Sizes of the model whose tensors are listed; it has no memory. Every layer of a short model can be dense, so there are 8.
SMALL = {"num_hidden_layers": 8, "hidden_size": 64, "vocab_size": 32}


def descriptors(without):
    """The descriptors except that of a family, which would be its own source."""
    skipped = {"class_defaults", "common", without}
    return [json.loads(path.read_text()) for path in sorted(FAMILIES.glob("*.json")) if path.stem not in skipped]


def most_common(pairs):
    """key → the value that most pairs give it."""
    counts = collections.defaultdict(collections.Counter)
    for key, value in pairs:
        counts[key][value] += 1
    return {key: values.most_common(1)[0][0] for key, values in counts.items()}


def known_keys(families):
    return most_common((key, concept) for family in families for concept, rule in family["concepts"].items()
                       for key in rule.get("keys", []))


def known_templates(families):
    """A name without its prefix → its role."""
    texts = ((text, role) for family in families for role, names in family["tensors"].items()
             for text in ([names] if isinstance(names, str) else names))
    return most_common((text.removeprefix("model."), role) for text, role in texts)


def small_model(model_type):
    """(config with the class's defaults, names and shapes of the tensors of a smaller model)."""
    config = transformers.AutoConfig.for_model(model_type)
    small = transformers.AutoConfig.for_model(model_type, **SMALL)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(small)
    tensors = dict(model.named_parameters()) | {name: tensor for name, tensor in model.named_buffers() if "bias" in name}
    return config, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, type(model)


def template_of(name):
    name = re.sub(r"\.layers\.\d+\.", ".layers.{i}.", name)
    return re.sub(r"\.experts\.\d+\.", ".experts.{e}.", name)


def concepts_of(config, keys):
    """(concepts, fields without a concept). A key that several fields match keeps the first."""
    found, unknown = {}, []
    shared = json.loads((FAMILIES / "common.json").read_text())
    common = shared["harmless"].keys() | shared["must"].keys()
    for key, value in config.to_dict().items():
        if key in common or key in ("model_type", "transformers_version", "rope_parameters", "id2label", "label2id"):
            continue
        if key not in keys:
            unknown.append(f"config: {key} = {json.dumps(value)}")
        else:
            found.setdefault(keys[key], {"keys": [key], "default": value if not isinstance(value, list) else None})
    theta = (config.to_dict().get("rope_parameters") or {}).get("rope_theta")
    if theta is not None:
        found["rope_theta"] = {"keys": ["rope_theta"], "default": theta}
    return found, unknown


def tensors_of(shapes, templates):
    roles, unknown = {}, []
    for template in dict.fromkeys(map(template_of, shapes)):
        role = templates.get(template.removeprefix("model."))
        if role is None:
            unknown.append(f"tensor: {template}")
        else:
            roles.setdefault(role, template)
    return roles, unknown


def router_source(model_class):
    """The source of the router's forward pass, or that of all modules if no class is named so."""
    module = sys.modules[model_class.__module__]
    routers = [value for name, value in vars(module).items() if inspect.isclass(value) and "Router" in name
               and value.__module__ == module.__name__]
    return "".join(map(inspect.getsource, routers)) or inspect.getsource(module)


def routing_of(source, roles):
    """Concepts and axes of the routing that the source's calls imply."""
    concepts, axes = {}, {}
    first_choice = source.find("topk(")
    first_score = min((at for at in (source.find("softmax("), source.find("sigmoid(")) if at >= 0), default=-1)
    score = "sigmoid" if "sigmoid" in source else "softmax"
    scores_first = re.search(r"topk\([^,]*(sigmoid|softmax)\(", source)  # topk(logits.sigmoid(), …)
    if first_choice >= 0 and first_score > first_choice and not scores_first:
        score += "_selected"
    concepts["score"] = {"default": score}
    if "1e-20" in source:
        axes["renorm"], concepts["renorm_eps"] = "sum_plus_eps", {"default": 1e-20}
    elif ".sum(" in source:
        axes["renorm"] = "sum"
    if any(role.startswith("router_choice_bias") for role in roles):
        concepts["choice_bias"] = {"default": True}
    if "topk(2" in source:
        axes["group_score"] = "top2_sum"
    return concepts, axes


def axes_of(roles, shapes, config):
    axes = {"attention": "mla" if "kv_a" in roles else "gqa", "norm": "rms", "rope": "half", "routed_weight": "output"}
    posts = {"attn_post_norm", "ffn_post_norm"} & set(roles)
    axes["block"] = "pre_norm" if not posts else "sandwich" if "attn_norm" in roles else "post_norm"
    norms = [shape for name, shape in shapes.items() if name.endswith("q_norm.weight")]
    head = getattr(config, "head_dim", None)
    axes["qk_norm"] = "none" if not norms else "per_head" if head is None or norms[0] == (head,) else "full"
    if "attn_gate" in roles:
        axes["attention_gate"] = "sigmoid"
    if "shared_up" in roles or "shared_gate_up" in roles:
        axes["shared_expert"] = "sigmoid_gated" if "shared_sigmoid_gate" in roles else "plain"
    if getattr(config, "sliding_window", None):
        axes["window"] = "between_full"
    return axes


def propose(model_type):
    families = descriptors(model_type)
    config, shapes, model_class = small_model(model_type)
    concepts, unknown = concepts_of(config, known_keys(families))
    roles, unnamed = tensors_of(shapes, known_templates(families))
    routing, axes = routing_of(router_source(model_class), roles)
    concepts |= {name: rule for name, rule in routing.items() if name not in concepts}
    if "sinks" in roles:
        concepts["sinks"] = {"default": True}
    return {"format": "moec-family/1", "model_type": model_type, "summary": "",
            "axes": axes_of(roles, shapes, config) | axes, "concepts": concepts, "must": {}, "harmless": {}, "tensors": roles,
            "unknown": unknown + unnamed}


def differences(draft, model_type):
    """Lines for what a person changed: axes, defaults of concepts, and roles; a line per part with the number of entries
    of the built-in descriptor that the draft has."""
    final = json.loads((FAMILIES / f"{model_type}.json").read_text())
    # Names of tensors differ between a release and transformers, so only roles are compared.
    for part, of in (("axes", lambda value: value), ("concepts", lambda rule: rule.get("default")), ("tensors", lambda _: "")):
        ours, theirs = ({name: json.dumps(of(value)) for name, value in one[part].items()} for one in (draft, final))
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                yield f"{part}.{name}: drafted {ours.get(name, 'nothing')}, is {theirs.get(name, 'absent')}"
        yield f"{part}: {sum(ours.get(name) == value for name, value in theirs.items())} of {len(theirs)} as drafted"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model_type")
    parser.add_argument("--compare", action="store_true", help="list the differences to the built-in descriptor")
    options = parser.parse_args()
    draft = propose(options.model_type)
    print("\n".join(differences(draft, options.model_type)) if options.compare else json.dumps(draft, indent=2))


if __name__ == "__main__":
    main()
