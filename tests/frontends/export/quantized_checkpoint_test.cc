// Checkpoints of the common quantizers: an export contains the values that the quantizer's formula
// gives.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr int64_t kHidden = 64, kExpertFf = 160;

// ---- Packing -----------------------------------------------------------------------------------

// A matrix of integers.
struct Integers {
  int64_t rows = 0, columns = 0;
  std::vector<uint32_t> values;

  uint32_t at(int64_t row, int64_t column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
  Integers transposed() const {
    Integers other{columns, rows, {}};
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j) other.values.push_back(at(j, i));
    return other;
  }
};

Integers random_integers(int64_t rows, int64_t columns, int64_t bits, std::mt19937& random) {
  Integers all{rows, columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i)
    all.values.push_back(static_cast<uint32_t>(random()) & ((1U << bits) - 1));
  return all;
}

// The integers of each row as a stream of bits, lowest bits first, in whole words.
Integers packed(const Integers& from, int64_t bits) {
  const int64_t words = (from.columns * bits + 31) / 32;
  Integers to{from.rows, words, std::vector<uint32_t>(static_cast<size_t>(from.rows * words))};
  for (int64_t row = 0; row < from.rows; ++row)
    for (int64_t bit = 0; bit < from.columns * bits; ++bit) {
      const uint32_t value = from.at(row, bit / bits) >> (bit % bits) & 1;
      to.values[static_cast<size_t>(row * words + bit / 32)] |= value << (bit % 32);
    }
  return to;
}

// Moves each eight columns to the order of AutoAWQ.
Integers in_awq_order(const Integers& from) {
  constexpr int64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  Integers to = from;
  for (int64_t row = 0; row < from.rows; ++row)
    for (int64_t i = 0; i < from.columns; ++i)
      to.values[static_cast<size_t>(row * from.columns + i)] =
          from.at(row, i / 8 * 8 + kOrder[i % 8]);
  return to;
}

DiskTensor words_of(const Integers& integers, const char* dtype = "I32") {
  return {dtype, {integers.rows, integers.columns}, bytes_of(integers.values)};
}

// ---- Factors -----------------------------------------------------------------------------------

struct Factors {
  int64_t rows = 0, columns = 0;
  std::vector<uint16_t> halves;

  float at(int64_t row, int64_t column) const {
    return f32_from_f16(halves[static_cast<size_t>(row * columns + column)]);
  }
  DiskTensor stored() const { return {"F16", {rows, columns}, bytes_of(halves)}; }
  Factors transposed() const {
    Factors other{columns, rows, {}};
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < rows; ++j)
        other.halves.push_back(halves[static_cast<size_t>(j * columns + i)]);
    return other;
  }
};

Factors random_factors(int64_t rows, int64_t columns, std::mt19937& random) {
  Factors all{rows, columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i)
    all.halves.push_back(f16_from_f32(static_cast<float>(1 + random() % 97) / 4000));
  return all;
}

// `value(row, column)` for each element of a matrix of the tensor's shape.
template <class Value>
DiskTensor decoded(const DiskTensor& tensor, Value value) {
  std::vector<float> values;
  for (int64_t row = 0; row < tensor.shape[0]; ++row)
    for (int64_t column = 0; column < tensor.shape[1]; ++column)
      values.push_back(value(row, column));
  return {"F32", tensor.shape, bytes_of(values)};
}

// ---- The codings -------------------------------------------------------------------------------

struct Sizes {
  int64_t bits = 4, group = 32;
};

// The parts of a matrix [out, in] in groups of columns, and its values. `groups` has the group of
// each column.
struct Grouped {
  Integers codes, zeros;
  Factors scales;
  std::vector<int32_t> groups;
  DiskTensor values;
};

Grouped grouped(const DiskTensor& tensor, const Sizes& sizes, bool shuffled, std::mt19937& random) {
  const int64_t out = tensor.shape[0], in = tensor.shape[1];
  const int64_t groups = (in - 1) / sizes.group + 1;
  Grouped all{random_integers(out, in, sizes.bits, random),
              random_integers(out, groups, sizes.bits, random),
              random_factors(out, groups, random),
              {},
              {}};
  for (int64_t i = 0; i < in; ++i) all.groups.push_back(static_cast<int32_t>(i / sizes.group));
  if (shuffled) std::shuffle(all.groups.begin(), all.groups.end(), random);
  return all;
}

float decode_one(const Grouped& all, int64_t row, int64_t column, float zero) {
  const int64_t group = all.groups[static_cast<size_t>(column)];
  return (static_cast<float>(all.codes.at(row, column)) - zero) * all.scales.at(row, group);
}

DiskTensor stored_groups(const Grouped& all) {
  return {"I32", {std::ssize(all.groups)}, bytes_of(all.groups)};
}

CodedTensor gptq_code(const DiskTensor& tensor, const Sizes& sizes, bool shuffled, float less,
                      std::mt19937& random) {
  const Grouped all = grouped(tensor, sizes, shuffled, random);
  // Integers are packed along the inputs, zeros along the outputs.
  return {{{".qweight", words_of(packed(all.codes, sizes.bits).transposed())},
           {".qzeros", words_of(packed(all.zeros.transposed(), sizes.bits))},
           {".scales", all.scales.transposed().stored()},
           {".g_idx", stored_groups(all)}},
          decoded(tensor, [&](int64_t row, int64_t column) {
            const int64_t group = all.groups[static_cast<size_t>(column)];
            return decode_one(all, row, column,
                              static_cast<float>(all.zeros.at(row, group)) + less);
          })};
}

CodedTensor awq_code(const DiskTensor& tensor, const Sizes& sizes, std::mt19937& random) {
  const Grouped all = grouped(tensor, sizes, false, random);
  return {{{".qweight", words_of(packed(in_awq_order(all.codes.transposed()), 4))},
           {".qzeros", words_of(packed(in_awq_order(all.zeros.transposed()), 4))},
           {".scales", all.scales.transposed().stored()}},
          decoded(tensor, [&](int64_t row, int64_t column) {
            return decode_one(all, row, column,
                              static_cast<float>(all.zeros.at(row, column / sizes.group)));
          })};
}

CodedTensor int_code(const DiskTensor& tensor, const Sizes& sizes, bool zeros, bool shuffled,
                     std::mt19937& random) {
  const Grouped all = grouped(tensor, sizes, shuffled, random);
  const auto middle = static_cast<float>(1 << (sizes.bits - 1));
  CodedTensor coded{{{"_packed", words_of(packed(all.codes, sizes.bits))},
                     {"_scale", all.scales.stored()},
                     {"_shape", {"I64", {2}, bytes_of(tensor.shape)}}},
                    decoded(tensor, [&](int64_t row, int64_t column) {
                      const int64_t group = all.groups[static_cast<size_t>(column)];
                      return decode_one(
                          all, row, column,
                          zeros ? static_cast<float>(all.zeros.at(row, group)) : middle);
                    })};
  if (zeros)
    coded.parts["_zero_point"] = words_of(packed(all.zeros.transposed(), sizes.bits).transposed());
  if (shuffled) coded.parts["_g_idx"] = stored_groups(all);
  return coded;
}

CodedTensor mlx_code(const DiskTensor& tensor, const Sizes& sizes, std::mt19937& random) {
  const Grouped all = grouped(tensor, sizes, false, random);
  const Factors addends = random_factors(all.scales.rows, all.scales.columns, random);
  return {{{"", words_of(packed(all.codes, sizes.bits), "U32")},
           {".scales", all.scales.stored()},
           {".biases", addends.stored()}},
          decoded(tensor, [&](int64_t row, int64_t column) {
            const float product = decode_one(all, row, column, 0);
            return product + addends.at(row, column / sizes.group);
          })};
}

// A byte whose value as f8_e4m3 is finite and positive.
uint8_t random_f8(std::mt19937& random) { return static_cast<uint8_t>(1 + random() % 126); }

CodedTensor fp8_scaled_code(const DiskTensor& tensor, int64_t block_rows,
                            std::vector<int64_t> shape, std::mt19937& random) {
  const Factors factors = random_factors((tensor.shape[0] - 1) / block_rows + 1, 1, random);
  std::string codes;
  for (int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i)
    codes += static_cast<char>(random_f8(random));
  return {{{"", {"F8_E4M3", tensor.shape, codes}},
           {"_scale", {"F16", std::move(shape), bytes_of(factors.halves)}}},
          decoded(tensor, [&](int64_t row, int64_t column) {
            const auto code =
                static_cast<uint8_t>(codes[static_cast<size_t>(row * tensor.shape[1] + column)]);
            return f32_from_f8_e4m3(code) * factors.at(row / block_rows, 0);
          })};
}

float e2m1(uint32_t code) {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  return code >= 8 ? -kMagnitudes[code - 8] : kMagnitudes[code];
}

CodedTensor nvfp4_code(const DiskTensor& tensor, bool divides, std::mt19937& random) {
  constexpr int64_t kBlock = 16;
  const int64_t out = tensor.shape[0], in = tensor.shape[1];
  const Integers codes = random_integers(out, in, 4, random);
  std::string factors;
  for (int64_t i = 0; i < out * in / kBlock; ++i) factors += static_cast<char>(random_f8(random));
  const float whole = static_cast<float>(3 + random() % 97) / (divides ? 1 : 7000);
  const DiskTensor numbers{"U8", {out, in / 2}, bytes_of(packed(codes, 4).values)};
  const DiskTensor stored{"F8_E4M3", {out, in / kBlock}, factors};
  const DiskTensor values = decoded(tensor, [&](int64_t row, int64_t column) {
    const float factor = f32_from_f8_e4m3(
        static_cast<uint8_t>(factors[static_cast<size_t>((row * in + column) / kBlock)]));
    return e2m1(codes.at(row, column)) * (divides ? factor / whole : factor * whole);
  });
  if (divides)
    return {{{"_packed", numbers},
             {"_scale", stored},
             {"_global_scale", {"F32", {1}, bytes_of(std::vector<float>{whole})}}},
            values};
  return {{{"", numbers},
           {"_scale", stored},
           {"_scale_2", {"F32", {}, bytes_of(std::vector<float>{whole})}},
           {".input_scale", {"F32", {}, bytes_of(std::vector<float>{1})}}},
          values};
}

std::vector<float> random_floats(int64_t count, std::mt19937& random) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back((static_cast<float>(random() % 2001) - 1000) / 3000);
  return values;
}

DiskTensor vector_of(const std::vector<float>& values) {
  return {"F32", {std::ssize(values)}, bytes_of(values)};
}

DiskTensor text_of(const std::string& text) { return {"U8", {std::ssize(text)}, text}; }

// The factors of blocks as 8-bit indices, and their values.
struct NestedFactors {
  CodedTensor coded;
  std::vector<float> values;
  float offset = 0;
};

NestedFactors nested_factors(int64_t count, std::mt19937& random) {
  constexpr int64_t kFactors = 256;  // per factor of factors
  const Integers indices = random_integers(1, count, 8, random);
  const std::vector<float> table = random_floats(256, random),
                           factors = random_floats((count - 1) / kFactors + 1, random);
  NestedFactors all;
  all.offset = random_floats(1, random).front();
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const float product = table[indices.at(0, i)] * factors[static_cast<size_t>(i / kFactors)];
    all.values.push_back(product + all.offset);
    bytes += static_cast<char>(indices.at(0, i));
  }
  all.coded.parts = {{".weight.absmax", {"U8", {count}, bytes}},
                     {".weight.nested_absmax", vector_of(factors)},
                     {".weight.nested_quant_map", vector_of(table)}};
  return all;
}

// Four bits of bitsandbytes: indices of a table, in blocks of the flat matrix.
CodedTensor table_code(const DiskTensor& tensor, const std::string& type, int64_t block,
                       bool nested, std::mt19937& random) {
  const int64_t in = tensor.shape[1], elements = tensor.shape[0] * in;
  const int64_t blocks = (elements - 1) / block + 1;
  const Integers indices = random_integers(1, elements, 4, random);
  const std::vector<float> table = random_floats(16, random);
  std::string bytes;
  for (int64_t i = 0; i < elements; i += 2)
    bytes += static_cast<char>(indices.at(0, i) << 4 | indices.at(0, i + 1));
  NestedFactors factors;
  Json state{
      {"quant_type", type}, {"blocksize", block}, {"dtype", "bfloat16"}, {"shape", tensor.shape}};
  if (nested) {
    factors = nested_factors(blocks, random);
    state.update({{"nested_blocksize", 256},
                  {"nested_dtype", "float32"},
                  {"nested_offset", factors.offset}});
  } else {
    factors.values = random_floats(blocks, random);
    factors.coded.parts[".weight.absmax"] = vector_of(factors.values);
  }
  CodedTensor coded = std::move(factors.coded);
  coded.parts[""] = {"U8", {elements / 2, 1}, bytes};
  coded.parts[".weight.quant_map"] = vector_of(table);
  coded.parts[".weight.quant_state.bitsandbytes__" + type] = text_of(state.dump());
  coded.decoded = decoded(tensor, [&](int64_t row, int64_t column) {
    const int64_t i = row * in + column;
    return table[indices.at(0, i)] * factors.values[static_cast<size_t>(i / block)];
  });
  return coded;
}

CodedTensor int8_rows_code(const DiskTensor& tensor, std::mt19937& random) {
  const int64_t out = tensor.shape[0], in = tensor.shape[1];
  const Integers codes = random_integers(out, in, 8, random);
  const std::vector<float> factors = random_floats(out, random);
  std::string bytes;
  for (const uint32_t code : codes.values) bytes += static_cast<char>(code);
  return {{{"", {"I8", tensor.shape, bytes}},
           {".SCB", vector_of(factors)},
           {".weight_format", {"U8", {}, std::string(1, '\0')}}},
          decoded(tensor, [&](int64_t row, int64_t column) {
            const auto code = static_cast<int8_t>(codes.at(row, column));
            const float product = static_cast<float>(code) * factors[static_cast<size_t>(row)];
            return product * 7.874015718698502e-3F;
          })};
}

// ---- Exports -----------------------------------------------------------------------------------

Json compressed(const char* format, Json weights, Json activations = nullptr) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups",
           {{"group_0", {{"weights", std::move(weights)}, {"input_activations", activations}}}}}};
}

Json packed_weights(int bits, const Json& more) {
  Json weights{{"num_bits", bits}, {"type", "int"}, {"strategy", "group"}, {"group_size", 32}};
  weights.update(more);
  return compressed("pack-quantized", weights);
}

Json fp8_weights(const char* strategy) {
  return compressed("float-quantized", {{"num_bits", 8}, {"type", "float"}, {"strategy", strategy}},
                    {{"num_bits", 8}, {"dynamic", true}});
}

struct Coding {
  const char* name;
  Json config;
  std::function<CodedTensor(const DiskTensor&, std::mt19937&)> code;
  bool copies = false;  // --weights copy takes the codes
};

Json gptq_config(int bits, const Json& more = Json::object()) {
  Json config{{"quant_method", "gptq"}, {"bits", bits}, {"group_size", 32}, {"desc_act", false}};
  config.update(more);
  return config;
}

Json tables_config(const char* type, bool nested) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"_load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_compute_dtype", "bfloat16"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", type},
          {"bnb_4bit_use_double_quant", nested},
          {"llm_int8_threshold", 6.0}};
}

Json mlx_config(int bits) { return {{"group_size", 32}, {"bits", bits}}; }

std::vector<Coding> bitsandbytes_codings() {
  using T = const DiskTensor&;
  using R = std::mt19937&;
  return {
      {"nf4", tables_config("nf4", false),
       [](T t, R r) { return table_code(t, "nf4", 64, false, r); }},
      {"nf4_nested", tables_config("nf4", true),
       [](T t, R r) { return table_code(t, "nf4", 32, true, r); }},
      {"nf4_partial", tables_config("nf4", true),
       [](T t, R r) { return table_code(t, "nf4", 4096, true, r); }},
      {"fp4", tables_config("fp4", false),
       [](T t, R r) { return table_code(t, "fp4", 128, false, r); }},
      {"fp4_nested", tables_config("fp4", true),
       [](T t, R r) { return table_code(t, "fp4", 64, true, r); }},
      {"int8_rows", {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}, int8_rows_code},
  };
}

std::vector<Coding> codings() {
  using T = const DiskTensor&;
  using R = std::mt19937&;
  std::vector<Coding> all = {
      {"gptq_2", gptq_config(2), [](T t, R r) { return gptq_code(t, {2}, false, 1, r); }},
      {"gptq_3", gptq_config(3), [](T t, R r) { return gptq_code(t, {3}, false, 1, r); }},
      {"gptq_4", gptq_config(4), [](T t, R r) { return gptq_code(t, {4}, false, 1, r); }, true},
      {"gptq_8", gptq_config(8), [](T t, R r) { return gptq_code(t, {8}, false, 1, r); }},
      {"gptq_v2", gptq_config(4, {{"checkpoint_format", "gptq_v2"}}),
       [](T t, R r) { return gptq_code(t, {4}, false, 0, r); }, true},
      {"gptq_ordered", gptq_config(4, {{"desc_act", true}}),
       [](T t, R r) { return gptq_code(t, {4}, true, 1, r); }},
      {"gptq_rows", gptq_config(4, {{"group_size", -1}}),
       [](T t, R r) {
         return gptq_code(t, {4, t.shape[1]}, false, 1, r);
       }},
      {"awq",
       {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "gemm"}},
       [](T t, R r) { return awq_code(t, {}, r); },
       true},
      {"int8", packed_weights(8, {{"symmetric", true}}),
       [](T t, R r) { return int_code(t, {8}, false, false, r); }, true},
      {"int4_zeros", packed_weights(4, {{"symmetric", false}}),
       [](T t, R r) { return int_code(t, {4}, true, false, r); }, true},
      {"int4_ordered", packed_weights(4, {{"symmetric", false}, {"actorder", "group"}}),
       [](T t, R r) { return int_code(t, {4}, true, true, r); }},
      {"int4_rows", packed_weights(4, {{"strategy", "channel"}}),
       [](T t, R r) {
         return int_code(t, {4, t.shape[1]}, false, false, r);
       }},
      {"fp8_rows", fp8_weights("channel"),
       [](T t, R r) {
         return fp8_scaled_code(t, 1, {t.shape[0], 1}, r);
       }},
      {"fp8_tensor", fp8_weights("tensor"),
       [](T t, R r) { return fp8_scaled_code(t, t.shape[0], {1}, r); }},
      {"fp8_static",
       {{"quant_method", "fp8"}, {"activation_scheme", "static"}},
       [](T t, R r) { return fp8_scaled_code(t, t.shape[0], {}, r); }},
      {"nvfp4_modelopt",
       {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}},
       [](T t, R r) { return nvfp4_code(t, false, r); }},
      {"nvfp4_compressed",
       compressed(
           "nvfp4-pack-quantized",
           {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}}),
       [](T t, R r) { return nvfp4_code(t, true, r); }},
      {"mlx_2", mlx_config(2), [](T t, R r) { return mlx_code(t, {2}, r); }},
      {"mlx_3", mlx_config(3), [](T t, R r) { return mlx_code(t, {3}, r); }},
      {"mlx_4", mlx_config(4), [](T t, R r) { return mlx_code(t, {4}, r); }},
      {"mlx_5", mlx_config(5), [](T t, R r) { return mlx_code(t, {5}, r); }},
      {"mlx_6", mlx_config(6), [](T t, R r) { return mlx_code(t, {6}, r); }},
      {"mlx_8", mlx_config(8), [](T t, R r) { return mlx_code(t, {8}, r); }},
  };
  // The codings of MLX stay last.
  const std::vector<Coding> more = bitsandbytes_codings();
  all.insert(all.begin(), more.begin(), more.end());
  return all;
}

// Writes a checkpoint twice: with coded experts and with their values.
void write_quantized_pair(const CheckpointCopy& coded, const CheckpointCopy& plain,
                          const Coding& coding) {
  for (const CheckpointCopy* copy : {&coded, &plain})
    copy->edit_config([](Json& config) {
      config["hidden_size"] = kHidden;
      config["moe_intermediate_size"] = kExpertFf;
    });
  std::mt19937 random(5);
  write_coded_and_decoded(coded, plain, random_tensors(coded.read("config.json")),
                          [&](const std::string& name, const DiskTensor& tensor) {
                            return name.find(".mlp.experts.") != std::string::npos
                                       ? std::optional(coding.code(tensor, random))
                                       : std::nullopt;
                          });
  coded.edit_config([&](Json& config) { config["quantization_config"] = coding.config; });
}

class QuantizedCheckpoint : public testing::TestWithParam<Coding> {};

// ONNX names initializers after tensors, so only banks of experts have equal files.
TEST_P(QuantizedCheckpoint, EqualsTheExportOfItsValues) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), plain("deepseek_v3_a", "plain");
  write_quantized_pair(coded, plain, GetParam());
  expect_equal_exports(coded, plain, {"--experts", "bank", "--dtype", "f32"});
}

TEST_P(QuantizedCheckpoint, CopiesCodesOrSaysWhyNot) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), plain("deepseek_v3_a", "plain");
  write_quantized_pair(coded, plain, GetParam());
  const std::string copied = fresh_folder("copied"), values = fresh_folder("values");
  const Words words{"--quiet", "--form", "matmul", "--dtype", "f32", "--tokens", "1", "--out"};
  const auto exported = [&](const std::string& to, bool copy) {
    Words all{"export", coded.folder()};
    all.insert(all.end(), words.begin(), words.end());
    all.push_back(to);
    if (copy) all.insert(all.end(), {"--weights", "copy"});
    return run_command(all);
  };
  const Outcome outcome = exported(copied, true);
  if (!GetParam().copies) {
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    // ONNX files have no 4-bit form with a scale per row.
    const std::string name = GetParam().name;
    const bool rows = name == "gptq_rows" || name == "int4_rows";
    EXPECT_THAT(outcome.err, HasSubstr(rows ? "emit.encoding" : "weights.copy"));
    return;
  }
  expect_fine(outcome);
  expect_fine(exported(values, false));
  std::ofstream(copied + ".ids") << "1 2 3 4 5 6 7 8 9 10 11 12";
  expect_fine(
      run_command({"compare", values, copied, "--tokens", copied + ".ids", "--max-kl", "1e-9"}));
}

// MLX joins the experts of a layer in one tensor per projection.
TEST(QuantizedCheckpoints, ReadStackedExpertsOfMlx) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), stacked("deepseek_v3_a", "stacked");
  const auto all = codings();
  write_quantized_pair(coded, stacked, all.back());
  std::filesystem::copy_file(coded.path("config.json"), stacked.path("config.json"),
                             std::filesystem::copy_options::overwrite_existing);
  DiskTensors tensors;
  for (const auto& [name, tensor] : read_tensors(coded)) {
    // The names end in experts.E.PART_proj.SUFFIX.
    const size_t at = name.find(".experts.");
    if (at == std::string::npos) {
      tensors[name] = tensor;
      continue;
    }
    const std::string rest = name.substr(at + 9);
    DiskTensor& joined = tensors[name.substr(0, at) + ".switch_mlp" + rest.substr(rest.find('.'))];
    const int64_t before = joined.shape.empty() ? 0 : joined.shape.front();
    ASSERT_EQ(rest.substr(0, rest.find('.')), std::to_string(before)) << "fewer than ten experts";
    joined.dtype = tensor.dtype;
    joined.shape = {before + 1, tensor.shape[0], tensor.shape[1]};
    joined.bytes += tensor.bytes;
  }
  write_tensors(stacked.folder(), tensors);
  expect_equal_exports(coded, stacked, {"--experts", "bank", "--dtype", "f32"});
}

// ---- Descriptions of bitsandbytes --------------------------------------------------------------

void write_named_pair(const CheckpointCopy& coded, const CheckpointCopy& plain, const char* name) {
  for (const Coding& coding : codings())
    if (std::string(coding.name) == name) write_quantized_pair(coded, plain, coding);
}

// The message of a checkpoint in which `edit` changes the parts of a matrix, whose name it gets.
std::string message_of_edited(const std::function<void(DiskTensors& all, const std::string&)>& edit,
                              const char* coding = "nf4_nested") {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), plain("deepseek_v3_a", "plain");
  write_named_pair(coded, plain, coding);
  DiskTensors tensors = read_tensors(coded);
  for (const auto& [name, tensor] : DiskTensors(tensors))
    if (name.ends_with("experts.1.up_proj.weight")) edit(tensors, name);
  write_tensors(coded.folder(), tensors);
  const Outcome outcome = run_command({"inspect", coded.folder()});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  return outcome.err;
}

std::string message_of_state(const std::function<void(Json&)>& edit) {
  return message_of_edited([&](DiskTensors& all, const std::string& name) {
    DiskTensor& text = all.at(name + ".quant_state.bitsandbytes__nf4");
    Json state = Json::parse(text.bytes);
    edit(state);
    text = text_of(state.dump());
  });
}

TEST(QuantizedCheckpoints, RejectOtherDescriptions) {
  const struct {
    const char* key;
    Json value;
    const char* message;
  } faults[] = {
      {"quant_type", "fp4", "\"quant_type\" is \"fp4\", but must be \"nf4\""},
      {"blocksize", 33, "\"blocksize\" is 33, but must be 32 or 64"},
      {"blocksize", 64, "\"blocksize\" is 64, but must be 32, as in other matrices"},
      {"dtype", "float64", "\"dtype\" is \"float64\""},
      {"shape", {64, 160}, "\"shape\" is [64, 160], but must be [160, 64]"},
      {"nested_blocksize", 128, "\"nested_blocksize\" is 128, but must be 256"},
      {"nested_dtype", "float16", "\"nested_dtype\" is \"float16\""},
      {"nested_offset", 1e300, "\"nested_offset\" is 1e+300, but must be a finite number in f32"},
      {"nested_offset", nullptr, "\"nested_offset\" is null"},
      {"scale", 2, "unknown key \"scale\""},
  };
  for (const auto& fault : faults) {
    const std::string message =
        message_of_state([&](Json& state) { state[fault.key] = fault.value; });
    EXPECT_THAT(message, HasSubstr("hf.quant_state"));
    EXPECT_THAT(message, HasSubstr(fault.message));
    EXPECT_THAT(message, HasSubstr("up_proj.weight.quant_state.bitsandbytes__nf4"));
  }
}

TEST(QuantizedCheckpoints, RejectBadTexts) {
  const auto with_text = [](const std::string& text) {
    return message_of_edited([&](DiskTensors& all, const std::string& name) {
      all.at(name + ".quant_state.bitsandbytes__nf4") = text_of(text);
    });
  };
  EXPECT_THAT(with_text("{\"blocksize\": 64"), HasSubstr("json.syntax"));
  EXPECT_THAT(with_text("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(with_text(std::string(5000, ' ')), HasSubstr("must have at most 4096 bytes"));
}

TEST(QuantizedCheckpoints, RejectOtherPartsOfTables) {
  const auto without = [](const std::string& part) {
    return message_of_edited(
        [&](DiskTensors& all, const std::string& name) { all.erase(name + part); });
  };
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map",
                           ".quant_state.bitsandbytes__nf4"})
    EXPECT_THAT(without(part), HasSubstr("hf.tensor.missing")) << part;
  const std::string message = message_of_edited([](DiskTensors& all, const std::string& name) {
    DiskTensor& factors = all.at(name + ".absmax");
    factors = {"U8", {factors.shape[0] - 1}, factors.bytes.substr(1)};
  });
  EXPECT_THAT(message, HasSubstr("must be [320], found [319]"));
}

TEST(QuantizedCheckpoints, RejectOtherIntegersOfRows) {
  const std::string tiled = message_of_edited(
      [](DiskTensors& all, const std::string& name) {
        all.at(name.substr(0, name.rfind('.')) + ".weight_format").bytes = "\2";
      },
      "int8_rows");
  EXPECT_THAT(tiled, HasSubstr("the weight format is 2, but must be 0 (rows)"));
}

TEST(QuantizedCheckpoints, PlanButDoNotPruneBitsandbytes) {
  const CheckpointCopy coded("deepseek_v3_a", "coded"), plain("deepseek_v3_a", "plain");
  write_named_pair(coded, plain, "nf4_nested");
  const Outcome planned = run_command({"plan", coded.folder()});
  expect_fine(planned);
  EXPECT_THAT(planned.out, HasSubstr("stores matrices as nf4 of 1 x 32"));
  const Outcome pruned = run_command(
      {"prune", coded.folder(), "--out", fresh_folder("pruned"), "--expert-mask", "*:0-3"});
  EXPECT_EQ(pruned.exit_code, kExitBadInput);
  EXPECT_THAT(pruned.err, HasSubstr("the matrices of bitsandbytes checkpoints cannot be cut"));
}

INSTANTIATE_TEST_SUITE_P(Codings, QuantizedCheckpoint, testing::ValuesIn(codings()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace moec
