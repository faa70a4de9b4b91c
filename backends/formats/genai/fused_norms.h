// Root mean square norms as single nodes SimplifiedLayerNormalization, an op of onnxruntime (in the
// default domain) without a counterpart in opset 17.
#pragma once

namespace onnx {
class GraphProto;
}

namespace moec {

// Replaces x / sqrt(mean of x² along the last axis + eps) · w, in the form that rms_normalise()
// (ir/graph/rms.h) gives it for f32:
//
//   Mul, ReduceMean, Add, Sqrt, Reciprocal, Mul, Mul ──▶ SimplifiedLayerNormalization {epsilon}
//
// w is a weight with one factor per element of the axis. Other norms stay: without w, with factors
// of heads, in f16, and with a value that has more uses.
void fuse_norms(onnx::GraphProto& part);

}  // namespace moec
