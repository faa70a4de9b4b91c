// Files, tables and an element-by-element oracle for tests of the weight reader.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/weights/views/coded_token.h"
#include "backends/weights/views/convert.h"
#include "backends/weights/views/unblock.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/scalar.h"

namespace moec {

using Bytes = std::vector<std::byte>;

// Returns a path that is unique to this process, because tests run as parallel processes. The path
// is removed when the process ends.
inline std::string temp_path(const std::string& name) {
  struct Paths : std::vector<std::string> {
    ~Paths() {
      for (const std::string& path : *this) std::filesystem::remove_all(path);
    }
  };
  static Paths paths;
  paths.push_back(testing::TempDir() + "/" + std::to_string(::getpid()) + "_" + name);
  return paths.back();
}

inline std::string write_file(const std::string& name, const Bytes& bytes) {
  std::string path = temp_path(name);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

// Rounds activations as products with ActivationFormat::int8 do: in groups of 32 (kTokenGroup).
inline void round_token(std::span<float> token) {
  const CodedToken rounded = arranged(token, {ActivationFormat::int8, 8});
  for (size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<float>(rounded.factors[i]) * rounded.scales[i / 32];
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A table of one file with one tensor, "w", at byte 0.
inline WeightTable table_of(const std::string& path, uint64_t bytes, Type type) {
  WeightTable table;
  table.files = {{path, bytes}};
  table.tensors["w"] = {0, 0, std::move(type)};
  return table;
}

inline Result<Bytes> stream_all(const WeightReader& reader, const WeightView& view,
                                size_t tile_bytes, StreamReport& report) {
  Bytes all;
  MOEC_TRY(reader.stream(
      view, tile_bytes,
      [&](std::span<const std::byte> tile) -> Status {
        all.insert(all.end(), tile.begin(), tile.end());
        return {};
      },
      report));
  return all;
}

inline std::string code_of(const Diagnostics& findings) {
  return findings.empty() ? "" : findings.front().code;
}

// Writes a file of random bytes that contains the view's tensors in sequence; float tensors get
// small values.
inline WeightTable write_tensors(const WeightView& view, const std::string& name) {
  WeightTable table;
  Bytes bytes;
  std::mt19937 random(7);
  for_each_tensor(view, [&](const TensorSource& source, const Type& type) {
    table.tensors[source.name] = {0, bytes.size(), type};
    for (int64_t i = 0; i < type.elements(); ++i) {
      const auto value = static_cast<float>(random() % 1000) / 997.0f - 0.5f;
      std::array<std::byte, 4> element{};
      if (type.dtype == DType::u8)
        element[0] = static_cast<std::byte>(random() & 0xFF);
      else
        encode(type.dtype, &value, 1, element.data());
      bytes.insert(bytes.end(), element.begin(), element.begin() + dtype_bytes(type.dtype));
    }
    bytes.resize((bytes.size() + 3) / 4 * 4);
  });
  table.files = {{write_file(name, bytes), bytes.size()}};
  return table;
}

// ---- The oracle --------------------------------------------------------------------------------

// Elements as bit patterns, and the number of overflows of each element so far.
struct Naive {
  Type type;
  std::vector<uint64_t> bits;
  std::vector<uint64_t> overflows;
};

inline float naive_decode(DType dtype, uint64_t bits) {
  if (dtype == DType::f32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == DType::f16) return f32_from_f16(static_cast<uint16_t>(bits));
  if (dtype == DType::bf16) return f32_from_bf16(static_cast<uint16_t>(bits));
  return f32_from_f8_e4m3(static_cast<uint8_t>(bits));
}

inline uint64_t naive_encode(DType dtype, float value) {
  if (dtype == DType::f16) return f16_from_f32(value);
  if (dtype == DType::bf16) return bf16_from_f32(value);
  return std::bit_cast<uint32_t>(value);
}

inline size_t naive_index(const Dims& dims, const Dims& at) {
  int64_t index = 0;
  for (size_t i = 0; i < dims.size(); ++i) index = index * dims[i] + at[i];
  return static_cast<size_t>(index);
}

inline Dims naive_position(const Dims& dims, int64_t index) {
  Dims at(dims.size());
  for (size_t i = dims.size(); i-- > 0; index /= dims[i]) at[i] = index % dims[i];
  return at;
}

// Applies an index step: `old_position` maps each new position to an old one.
template <class OldPosition>
void naive_gather(Naive& data, Dims dims, OldPosition old_position) {
  Naive result{{data.type.dtype, std::move(dims)}, {}, {}};
  for (int64_t i = 0; i < result.type.elements(); ++i) {
    const size_t old =
        naive_index(data.type.dims, old_position(naive_position(result.type.dims, i)));
    result.bits.push_back(data.bits[old]);
    result.overflows.push_back(data.overflows[old]);
  }
  data = std::move(result);
}

// Sets each element to fn(element, position), computed in f32 and rounded to `dtype`.
template <class Fn>
void naive_map(Naive& data, DType dtype, Fn fn) {
  for (size_t i = 0; i < data.bits.size(); ++i) {
    const float old = naive_decode(data.type.dtype, data.bits[i]);
    const float value = fn(old, naive_position(data.type.dims, static_cast<int64_t>(i)));
    const uint64_t bits = naive_encode(dtype, value);
    if (std::isfinite(old) && std::isinf(naive_decode(dtype, bits))) ++data.overflows[i];
    data.bits[i] = bits;
  }
  data.type.dtype = dtype;
}

class Oracle {
 public:
  Oracle(const WeightTable& table, const Bytes& file) : table_(table), file_(file) {}

  Naive operator()(const WeightView& view) const {
    Naive data =
        std::visit([&](const auto& source) { return load(source, view.source_type); }, view.source);
    for (const ViewStep& step : view.steps)
      std::visit([&](const auto& one) { apply_step(one, data); }, step);
    return data;
  }

 private:
  Naive load(const TensorSource& source, const Type& type) const {
    Naive data{type, {}, std::vector<uint64_t>(static_cast<size_t>(type.elements()))};
    const auto width = static_cast<size_t>(dtype_bytes(type.dtype));
    for (size_t i = 0; i < data.overflows.size(); ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, file_.data() + table_.find(source.name)->offset + i * width, width);
      data.bits.push_back(bits);
    }
    return data;
  }
  Naive load(const SplatSource& source, const Type& type) const {
    const auto count = static_cast<size_t>(type.elements());
    const auto value = static_cast<float>(source.value);
    const uint64_t bits = naive_encode(type.dtype, value);
    const bool overflow = std::isfinite(value) && std::isinf(naive_decode(type.dtype, bits));
    return {type, std::vector(count, bits), std::vector<uint64_t>(count, overflow ? 1 : 0)};
  }
  Naive load(const SeededSource& source, const Type& type) const {
    Naive data{type, {}, std::vector<uint64_t>(static_cast<size_t>(type.elements()))};
    for (size_t i = 0; i < data.overflows.size(); ++i)
      data.bits.push_back(naive_encode(type.dtype, seeded_element(source.seed, i)));
    return data;
  }
  Naive load(const ConcatSource& source, const Type& type) const {
    const auto count = static_cast<size_t>(type.elements());
    Naive joined{type, std::vector<uint64_t>(count), std::vector<uint64_t>(count)};
    int64_t start = 0;
    for (const WeightView& view : source.parts) {
      const Naive part = (*this)(view);
      for (size_t i = 0; i < part.bits.size(); ++i) {
        Dims at = naive_position(part.type.dims, static_cast<int64_t>(i));
        at[static_cast<size_t>(source.axis)] += start;
        joined.bits[naive_index(type.dims, at)] = part.bits[i];
        joined.overflows[naive_index(type.dims, at)] = part.overflows[i];
      }
      start += part.type.dims[static_cast<size_t>(source.axis)];
    }
    return joined;
  }

  void apply_step(const SliceStep& step, Naive& data) const {
    const auto axis = static_cast<size_t>(step.axis);
    Dims dims = data.type.dims;
    dims[axis] = step.size;
    naive_gather(data, dims, [&](Dims at) {
      at[axis] += step.begin;
      return at;
    });
  }
  void apply_step(const ReshapeStep& step, Naive& data) const { data.type.dims = step.dims; }
  void apply_step(const PermuteStep& step, Naive& data) const {
    Dims dims;
    for (int64_t axis : step.axes) dims.push_back(data.type.dims[static_cast<size_t>(axis)]);
    naive_gather(data, dims, [&](const Dims& at) {
      Dims old(at.size());
      for (size_t i = 0; i < at.size(); ++i) old[static_cast<size_t>(step.axes[i])] = at[i];
      return old;
    });
  }
  void apply_step(const CastStep& step, Naive& data) const {
    naive_map(data, step.dtype, [](float value, const Dims&) { return value; });
  }
  void apply_step(const ScaleStep& step, Naive& data) const {
    naive_map(data, data.type.dtype,
              [&](float value, const Dims&) { return value * static_cast<float>(step.factor); });
  }
  void apply_step(const DequantStep& step, Naive& data) const {
    const Naive scale = (*this)(step.scale.front());
    const Naive offset = step.offset.empty() ? scale : (*this)(step.offset.front());
    naive_map(data, DType::f32, [&](float value, Dims at) {
      for (size_t i = 0; i < at.size(); ++i) at[i] /= step.block[i];
      const size_t block = naive_index(scale.type.dims, at);
      if (!step.offset.empty()) value -= naive_decode(offset.type.dtype, offset.bits[block]);
      return value * naive_decode(scale.type.dtype, scale.bits[block]);
    });
  }
  void apply_step(const LutStep& step, Naive& data) const {
    const Naive table = (*this)(step.table.front());
    naive_map(data, DType::f32, [&](float value, Dims at) {
      for (size_t i = 0; i < at.size(); ++i) at[i] /= step.block[i];
      at.push_back(static_cast<int64_t>(value));
      return naive_decode(table.type.dtype, table.bits[naive_index(table.type.dims, at)]);
    });
  }
  void apply_step(const BlockwiseStep& step, Naive& data) const {
    const Naive operand = (*this)(step.operand.front());
    naive_map(data, DType::f32, [&](float value, Dims at) {
      for (size_t i = 0; i < at.size(); ++i) at[i] /= step.block[i];
      const float other =
          naive_decode(operand.type.dtype, operand.bits[naive_index(operand.type.dims, at)]);
      return step.op == BlockwiseOp::add ? value + other : value / other;
    });
  }
  void apply_step(const GatherStep& step, Naive& data) const {
    const Naive indices = (*this)(step.indices.front());
    const auto axis = static_cast<size_t>(step.axis);
    Dims dims = data.type.dims;
    dims[axis] = indices.type.dims[0];
    naive_gather(data, dims, [&](Dims at) {
      at[axis] = static_cast<int64_t>(indices.bits[static_cast<size_t>(at[axis])]);
      return at;
    });
  }
  void apply_step(const CenterStep&, Naive& data) const {
    std::vector<float> finite;
    for (const uint64_t bits : data.bits)
      if (const float value = naive_decode(data.type.dtype, bits); std::isfinite(value))
        finite.push_back(value);
    std::sort(finite.begin(), finite.end());
    const float median = finite.empty() ? 0 : finite[(finite.size() - 1) / 2];
    naive_map(data, DType::f32, [&](float value, const Dims&) { return value - median; });
  }
  void apply_step(const MapStep& step, Naive& data) const {
    naive_map(data, DType::f32, [&](float value, const Dims&) {
      const auto x = static_cast<double>(value);
      const double by_function[] = {-std::exp(x), std::log(-x), x + 1, x - 1};
      return static_cast<float>(by_function[static_cast<size_t>(step.function)]);
    });
  }
  void apply_step(const RemainderStep& step, Naive& data) const {
    naive_map(data, DType::f32, [&](float value, const Dims&) {
      const float rounded = naive_decode(step.dtype, naive_encode(step.dtype, value));
      return std::isfinite(rounded) ? value - rounded : 0.0f;
    });
  }
  // Unpacks the numbers of each row along the last axis, bit by bit.
  void apply_step(const UnpackStep& step, Naive& data) const {
    const auto width = 8 * static_cast<size_t>(dtype_bytes(data.type.dtype));
    const auto bits = static_cast<size_t>(naive_bits(step.packing));
    const auto row = static_cast<size_t>(data.type.dims.back());
    Naive result{{DType::f32, data.type.dims}, {}, {}};
    result.type.dims.back() = static_cast<int64_t>(row * width / bits);
    for (size_t first = 0; first < data.bits.size(); first += row)
      for (size_t number = 0; number < row * width / bits; ++number) {
        const size_t begin = naive_place(step.packing, number) * bits;
        uint64_t code = 0;
        for (size_t bit = begin; bit < begin + bits; ++bit)
          code |= (data.bits[first + bit / width] >> bit % width & 1) << (bit - begin);
        result.bits.push_back(std::bit_cast<uint32_t>(naive_number(step.packing, code)));
      }
    result.overflows.resize(result.bits.size());
    data = std::move(result);
  }
  // Decodes all blocks of all rows; the GGUF tests check the values of individual blocks.
  void apply_step(const UnblockStep& step, Naive& data) const {
    const BlockFormat& format = block_format(step.type);
    Bytes bytes;
    for (const uint64_t bits : data.bits) bytes.push_back(static_cast<std::byte>(bits));
    data.type.dtype = DType::f32;
    const int64_t numbers = unblocked_count(step);
    data.type.dims.back() = data.type.dims.back() / format.bytes * numbers;
    std::vector<float> values(static_cast<size_t>(data.type.elements()));
    unblock(step, bytes.data(), values.size() / static_cast<size_t>(numbers), values.data());
    data.bits.clear();
    for (const float value : values) data.bits.push_back(std::bit_cast<uint32_t>(value));
    data.overflows.assign(values.size(), 0);
  }
  static int naive_bits(Packing packing) {
    const int bits[] = {4, 4, 8, 1, 2, 3, 4, 6, 8, 4, 8, 2, 3, 4, 5, 6, 8, 4, 4};  // in enum order
    return bits[static_cast<size_t>(packing)];
  }
  // The place of a number in the stream of bits.
  static size_t naive_place(Packing packing, size_t number) {
    const size_t places[] = {0, 4, 1, 5, 2, 6, 3, 7};
    if (packing == Packing::u4_high) return number ^ 1;
    return packing == Packing::u4_awq ? number / 8 * 8 + places[number % 8] : number;
  }
  static float naive_number(Packing packing, uint64_t code) {
    const auto number = static_cast<int>(code);
    if (packing == Packing::i4_excess8) return static_cast<float>(number - 8);
    if (packing == Packing::f8_e8m0) return code == 255 ? NAN : std::ldexp(1.0f, number - 127);
    if (packing == Packing::i4) return static_cast<float>(number < 8 ? number : number - 16);
    if (packing == Packing::i8) return static_cast<float>(number < 128 ? number : number - 256);
    if (packing != Packing::f4_e2m1) return static_cast<float>(number);
    const float magnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    return number >= 8 ? -magnitudes[number - 8] : magnitudes[number];
  }

  const WeightTable& table_;
  const Bytes& file_;
};

}  // namespace moec
