#!/usr/bin/env python3
"""Writes models/families/class_defaults.json: the defaults of transformers for keys that a config lacks.

    derive_class_defaults.py [--check]

For every descriptor in models/families, reads defaults from the config class of the installed transformers: of each key
that the descriptor reads or restricts, and of each other field of the class that models/families/common.json does not
list as harmless. --check compares the file with the result instead of writing it, and exits with 1 if they differ.

An entry of "keys" is one of
  {"default": V}                   the class declares V and keeps it
  {"default": V, "computed": W, "rule": R}
                                   the class declares V (often null) and replaces it with W when a config is made; R is
                                   the rule, if it is known. A list W is that of a config with "layers" layers.
  {"default": null, "model": R}    null stays in the config, and the model's code uses R
  {"alias_of": K}                  another spelling of K
  {"unknown": true}                the class has no such field: a key of older or foreign configs
and may have "null", the result of an explicit null: a value, or "refused".

"rope" describes how the class converts the keys of the rotation: "base" is the default base, and each of "cases" is a
config with the resulting rope_parameters.
"""
import argparse
import dataclasses
import json
import math
import sys
import warnings
from pathlib import Path

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModel

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "models" / "families"
TABLE = FAMILIES / "class_defaults.json"
LAYERS = 6  # layers of the configs for lists with one entry per layer
ROPE_KEYS = {"rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor"}
# Sizes that differ from each other and from every class default, so that a rule can be identified.
TRIALS = [
    {"num_attention_heads": 12, "hidden_size": 1200, "num_hidden_layers": 7},
    {"num_attention_heads": 24, "hidden_size": 4800, "num_hidden_layers": 9},
]
# Additional keys that some classes require, because these keys have no default or one that does not fit the trial
# sizes.
NEEDED = {"dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
          "granitemoehybrid": {"mamba_n_heads": 12}}
RULES = {
    "= num_attention_heads": lambda t: t["num_attention_heads"],
    "= hidden_size / num_attention_heads": lambda t: t["hidden_size"] // t["num_attention_heads"],
    "= num_hidden_layers": lambda t: t["num_hidden_layers"],
    "= num_hidden_layers - 1": lambda t: t["num_hidden_layers"] - 1,
    "= mamba_expand * hidden_size / mamba_n_heads": lambda t: 2 * t["hidden_size"] // t.get("mamba_n_heads", 1),
}


def plain(value):
    """A value as in JSON, with sorted object keys, and infinity as transformers writes it."""
    if isinstance(value, float) and math.isinf(value):
        return {"__float__": "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return json.loads(json.dumps(value, sort_keys=True, default=str))


def make(model_type, **keys):
    """A config, or None if the class rejects it. If sizes differ by layer, attributes are those of the whole model."""
    try:
        config = CONFIG_MAPPING[model_type].from_dict(dict(keys))
    except Exception:  # classes raise different types of exceptions
        return None
    if hasattr(config, "per_layer_config"):
        config.allow_global_per_layer_attribute_access = True
    return config


def declared_defaults(model_type):
    defaults = {}
    for field in dataclasses.fields(CONFIG_MAPPING[model_type]):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def rule_of(model_type, key):
    """The rule of RULES with which the class computes a key, or None."""
    trials = [{**trial, **NEEDED.get(model_type, {})} for trial in TRIALS]
    made = [getattr(make(model_type, **trial), key, None) for trial in trials]
    for rule, value in RULES.items():
        if [value(trial) for trial in trials] == made:
            return rule
    return None


def repeated(values):
    """Describes a list by the shortest sequence that it repeats."""
    for width in range(1, len(values)):
        if all(values[i] == values[i % width] for i in range(len(values))):
            return "= " + ", ".join(json.dumps(value) for value in values[:width]) + " in turn"


def head_dim_of_model(model_type):
    """The rule for head_dim that the model's code applies if the config has none."""
    small = {"num_hidden_layers": 1, "num_attention_heads": 6, "num_key_value_heads": 2}
    made = []
    for hidden in (96, 192):
        config = make(model_type, hidden_size=hidden, intermediate_size=32, vocab_size=64,
                      pad_token_id=0, **small, **NEEDED.get(model_type, {}))
        try:
            with torch.device("meta"):
                model = AutoModel.from_config(config)
        except Exception:
            return "raises"
        dims = {m.head_dim for m in model.modules() if hasattr(m, "head_dim")}
        made.append(dims == {hidden // 6})
    return "= hidden_size / num_attention_heads" if all(made) else "unknown"


def dense_width_of_model(model_type):
    """The rule for the width of leading dense layers that the model's code applies if the config has none."""
    made = []
    for width in (32, 48):
        config = make(model_type, num_hidden_layers=1, first_k_dense_replace=1, hidden_size=24, intermediate_size=width,
                      vocab_size=64, **NEEDED.get(model_type, {}))
        with torch.device("meta"):
            model = AutoModel.from_config(config)
        made.append(model.layers[0].mlp.up_proj.out_features == width)
    return "= intermediate_size" if all(made) else "unknown"


def entry_of_list(model_type, key, declared):
    """The entry for KEY.NUMBER, an element of a list."""
    name, _, number = key.partition(".")
    if name not in declared:
        return {"unknown": True}
    return {"default": plain(getattr(make(model_type), name))[int(number)]}


def entry_of(model_type, key, declared):
    if "." in key:
        return entry_of_list(model_type, key, declared)
    config = make(model_type, num_hidden_layers=LAYERS)
    full = make(model_type)
    aliases = getattr(type(full), "attribute_map", {})
    if key not in declared:
        target = aliases.get(key)
        # A map may also point from the field to the alias.
        target = target or next((a for a, b in aliases.items() if b == key), None)
        if target in declared:
            return {"alias_of": target}
        if key == "head_dim":
            return {"unknown": True, "model": head_dim_of_model(model_type)}
        return {"unknown": True}
    entry = {"default": plain(declared[key])}
    made = plain(getattr(config if key != "num_hidden_layers" else full, key))
    if made != entry["default"]:
        entry["computed"] = made if isinstance(made, (list, dict)) else plain(getattr(full, key))
        if isinstance(made, list) and len(made) == LAYERS:
            entry["layers"] = LAYERS
            if rule := repeated(made):
                entry["rule"] = rule
        elif not isinstance(made, (list, dict)) and (rule := rule_of(model_type, key)):
            entry["rule"] = rule
    elif key == "head_dim" and made is None:
        entry["model"] = head_dim_of_model(model_type)
    elif key == "prefix_dense_intermediate_size" and made is None:
        entry["model"] = dense_width_of_model(model_type)
    if entry["default"] is not None:
        with_null = make(model_type, **{key: None})
        entry["null"] = "refused" if with_null is None else plain(getattr(with_null, key))
    return entry


def rope_of(model_type):
    """The entry "rope": how the class converts the keys of the rotation, tried with values that no class has by default."""
    layer_types = getattr(make(model_type, num_hidden_layers=LAYERS), "rope_parameters", None)
    if layer_types is None:  # attention without rotation
        return {"base": None, "cases": []}
    nested = any(isinstance(value, dict) for value in layer_types.values())
    cases = [{}, {"rope_theta": 123.0}, {"partial_rotary_factor": 0.25},
             {"rope_theta": 123.0, "rope_scaling": None}, {"rope_parameters": None}]
    if nested:
        cases += [{"layer_types": [layer_type] * LAYERS, "sliding_window": 4}
                  for layer_type in sorted(layer_types)]
    else:
        cases += [{"rope_parameters": {"rope_type": "default"}},
                  {"rope_parameters": {"rope_type": "default", "rope_theta": 123.0}},
                  {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 123.0},
                  {"rope_scaling": {"type": "linear", "factor": 2.0}}]
    written = []
    for case in cases:
        config = make(model_type, num_hidden_layers=LAYERS, **json.loads(json.dumps(case)))
        made = None if config is None else config.rope_parameters
        written.append({"config": plain(case), "rope_parameters": plain(made) if made else "refused"})
    return {"base": CONFIG_MAPPING[model_type].default_theta, "cases": written}


def keys_of(descriptor):
    keys = {key for rule in descriptor["concepts"].values() for key in as_list(rule.get("keys", []))}
    return keys | set(descriptor.get("must", {}))


def as_list(value):
    return [value] if isinstance(value, str) else value


def family_entry(descriptor):
    model_type = descriptor["model_type"]
    declared = declared_defaults(model_type)
    base = fields_of_every_config()
    fields = set(declared) - base - harmless_keys()
    keys = (keys_of(descriptor) | fields) - ROPE_KEYS
    return {
        "class": CONFIG_MAPPING[model_type].__name__,
        "keys": {key: entry_of(model_type, key, declared) for key in sorted(keys)},
        "rope": rope_of(model_type),
    }


def harmless_keys():
    """Keys that do not affect results in any family."""
    return set(json.loads((FAMILIES / "common.json").read_text())["harmless"])


def fields_of_every_config():
    return {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}


def table():
    descriptors = [json.loads(path.read_text()) for path in sorted(FAMILIES.glob("*.json"))]
    families = {d["model_type"]: family_entry(d) for d in descriptors if "model_type" in d and "plan_only" not in d}
    return {
        "format": "moec-class-defaults/1",
        "transformers": transformers.__version__,
        "families": families,
    }


def text_of(value):
    """Formats one line per key, so that a change of one default is one line of a diff."""
    lines = ["{", f'  "format": {json.dumps(value["format"])},',
             f'  "transformers": {json.dumps(value["transformers"])},', '  "families": {']
    families = sorted(value["families"].items())
    for name, family in families:
        lines += [f'    {json.dumps(name)}: {{', f'      "class": {json.dumps(family["class"])},',
                  '      "keys": {']
        lines += separated(f'        {json.dumps(key)}: {json.dumps(entry)}'
                           for key, entry in sorted(family["keys"].items()))
        lines += ["      },", '      "rope": {', f'        "base": {json.dumps(family["rope"]["base"])},',
                  '        "cases": [']
        lines += separated("          " + json.dumps(case) for case in family["rope"]["cases"])
        lines += ["        ]", "      }", "    }" + ("," if name != families[-1][0] else "")]
    return "\n".join(lines + ["  }", "}", ""])


def separated(lines):
    lines = list(lines)
    return [line + "," for line in lines[:-1]] + lines[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    text = text_of(table())
    if not options.check:
        TABLE.write_text(text)
    elif TABLE.read_text() != text:
        sys.exit(f"{TABLE} differs from transformers {transformers.__version__}: run this script without --check")


if __name__ == "__main__":
    main()
