// Export options specific to ONNX files.
#pragma once

namespace moec {

struct OnnxOptions {
  bool checksum = false;  // write the data file's SHA-1 into the graphs
  // The type in which onnxruntime computes products with 4-bit codes: 0 the type of the
  // activations, 1 f32, 2 f16, 3 bf16, 4 int8. int8 is several times as fast, with an error of
  // about 0.5 % of a product.
  int accuracy_level = 0;
};

}  // namespace moec
