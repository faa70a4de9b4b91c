// Choices of an export that only ONNX files have.
#pragma once

namespace moec {

struct OnnxOptions {
  bool checksum = false;  // write the data file's SHA-1 into the graphs
  // The type in which onnxruntime multiplies with 4-bit codes: 0, as the activations are; 1 f32; 2
  // f16; 3 bf16; 4 int8, several times as fast and with an error of some 0.5 % of a product.
  int accuracy_level = 0;
};

}  // namespace moec
