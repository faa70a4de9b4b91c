#include "backends/formats/safetensors/safetensors_dtype.h"

namespace moec {
namespace {

// Includes element types without an IR type, so that the sizes of their tensors can be checked.
constexpr DiskDType kDTypes[] = {
    {"BOOL", 8, DType::boolean},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::u8},
    {"I8", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, DType::f8_e4m3},
    {"F8_E8M0", 8, {}},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32},
    {"U32", 32, DType::i32},  // words of packed integers (MLX), whose signs have no meaning
    {"F32", 32, DType::f32},
    {"C64", 64, {}},
    {"F64", 64, {}},
    {"I64", 64, DType::i64},
    {"U64", 64, {}},
};

}  // namespace

const DiskDType* find_disk_dtype(std::string_view name) {
  for (const DiskDType& dtype : kDTypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

}  // namespace moec
