// Exercises the text form: parser, printer, verifier, and weight views.
#include <cstdint>

#include "tests/fuzz/ir_text_property.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moec::ir_text::check_ir_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
