"""Parts of the entries of CASES: number formats, rotations and labels."""

import torch

from golden.labels import label_maps, labels_of

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def rope(theta=10000.0, kind="default", **rest):
    return {"rope_type": kind, "rope_theta": theta, **rest}


def bioes(*classes):
    return label_maps(labels_of(classes))
