#include "frontends/sources/hf/quant_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/base/at.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

// A text has about 200 bytes.
constexpr JsonLimits kLimits{.bytes = 4096, .depth = 4, .values = 64};
constexpr const char* kNext =
    "download the file again, or quantize the model again with bitsandbytes";

// Opens each file of a table once.
class SmallTensors {
 public:
  explicit SmallTensors(const WeightTable& weights) : weights_(weights) {}

  Result<std::string> read(const TensorRange& range) {
    const WeightFile& stored = at(weights_.files, range.file);
    auto found = files_.find(range.file);
    if (found == files_.end()) {
      MOEC_ASSIGN(RegularFile file, RegularFile::open(stored.path));
      if (stored.identity)
        if (const auto change = change_between(*stored.identity, file.identity()))
          return fail("file.changed", *change, "run the command again", {.file = stored.path});
      found = files_.emplace(range.file, std::move(file)).first;
    }
    return found->second.read(range.offset, static_cast<uint64_t>(range.type.bytes()));
  }

 private:
  const WeightTable& weights_;
  std::map<uint32_t, RegularFile> files_;
};

// The members of a text, as bitsandbytes writes them: QuantState.as_dict().
class StateText {
 public:
  StateText(const JsonValue& object, Place place) : object_(object), place_(std::move(place)) {}

  tl::unexpected<Diagnostics> error(std::string cause) const {
    return fail("hf.quant_state", std::move(cause), kNext, place_);
  }

  Status require(std::string_view key, std::initializer_list<JsonValue::Data> accepted) const {
    const JsonValue* value = object_.find(key);
    std::vector<std::string> texts;
    for (const JsonValue::Data& one : accepted) {
      if (value != nullptr && value->data == one) return {};
      texts.push_back(to_string(JsonValue{one}));
    }
    return error(fmt::format("\"{}\" is {}, but must be {}", key,
                             value == nullptr ? "missing" : to_string(*value, 60),
                             fmt::join(texts, " or ")));
  }

  Status check_keys(bool nested) const {
    constexpr std::string_view kKnown[] = {"quant_type",   "blocksize",        "dtype",
                                           "shape",        "nested_blocksize", "nested_dtype",
                                           "nested_offset"};
    if (object_.object() == nullptr)
      return error(fmt::format("the text must be an object, but is {}", kind_name(object_)));
    for (const JsonMember& member : *object_.object()) {
      if (std::find(std::begin(kKnown), std::end(kKnown), member.key) == std::end(kKnown))
        return error(fmt::format("the text has the unknown key \"{}\"", printable(member.key, 80)));
      if (!nested && member.key.starts_with("nested_"))
        return error(
            fmt::format("\"{}\" contradicts the config, which has no "
                        "bnb_4bit_use_double_quant",
                        member.key));
    }
    return {};
  }

  Status check_shape(const Dims& dims) const {
    JsonValue::Array sizes;
    for (const int64_t size : dims) sizes.push_back({size});
    return require("shape", {std::move(sizes)});
  }

  // The sizes of blocks that the package accepts.
  Result<int64_t> block_size() const {
    MOEC_TRY(require("blocksize", {int64_t{32}, int64_t{64}, int64_t{128}, int64_t{256},
                                   int64_t{512}, int64_t{1024}, int64_t{2048}, int64_t{4096}}));
    return *object_.find("blocksize")->integer();
  }

  Result<double> nested_offset() const {
    MOEC_TRY(require("nested_blocksize", {kNestedBlock}));
    MOEC_TRY(require("nested_dtype", {std::string("float32")}));
    const JsonValue* value = object_.find("nested_offset");
    const std::optional<double> offset = value ? value->number() : std::nullopt;
    // The package keeps the offset as f32.
    if (offset && std::isfinite(static_cast<float>(*offset))) return static_cast<float>(*offset);
    return error(fmt::format("\"nested_offset\" is {}, but must be a finite number in f32",
                             value == nullptr ? "missing" : to_string(*value, 60)));
  }

 private:
  const JsonValue& object_;
  Place place_;
};

class StateReader {
 public:
  StateReader(StoredWeights& stored, WeightTable& weights)
      : stored_(stored), weights_(weights), files_(weights) {}

  Status read(const NeededTensor& tensor) {
    const TensorRange* matrix = weights_.find(tensor.name);
    if (matrix == nullptr || matrix->type.dtype != DType::u8) return {};
    if (stored_.coding == WeightCoding::int8_rows) return check_format(tensor.name);
    const std::string name = quant_state_of(stored_, tensor.name);
    const TensorRange* range = weights_.find(name);
    if (range == nullptr) return {};
    const std::string& file = at(weights_.files, range->file).path;
    const Place place{.tensor = name, .file = file, .offset = range->offset};
    if (range->type.dtype != DType::u8 || range->type.bytes() > static_cast<int64_t>(kLimits.bytes))
      return fail("hf.quant_state",
                  fmt::format("the description is {}, but must have at most {} bytes",
                              to_string(range->type), kLimits.bytes),
                  kNext, place);
    MOEC_ASSIGN(const std::string text, files_.read(*range));
    auto json = parse_json(text, {.file = file, .first_offset = range->offset, .has_lines = false},
                           kLimits);
    if (!json) {
      for (Diagnostic& finding : json.error()) {
        finding.place.tensor = name;
        finding.next_step = kNext;
      }
      return fail(std::move(json.error()));
    }
    return add(tensor, {*json, place});
  }

 private:
  // Adds the state of a matrix. Types of values and of computation do not change what is stored:
  // moec decodes to f32 and rounds to the exported type.
  Status add(const NeededTensor& tensor, const StateText& state) {
    MOEC_TRY(state.check_keys(stored_.nested));
    MOEC_TRY(state.require("quant_type", {std::string(enum_name(stored_.coding))}));
    MOEC_TRY(state.require(
        "dtype", {std::string("float32"), std::string("float16"), std::string("bfloat16")}));
    MOEC_TRY(state.check_shape(tensor.dims));
    MOEC_ASSIGN(const int64_t block, state.block_size());
    if (has_block_ && block != stored_.block[1])
      return state.error(fmt::format("\"blocksize\" is {}, but must be {}, as in other matrices",
                                     block, stored_.block[1]));
    stored_.block = {1, block};
    has_block_ = true;
    double offset = 0;
    if (stored_.nested) {
      MOEC_ASSIGN(offset, state.nested_offset());
    }
    weights_.derived[decoded_state_of(tensor.name)] = splat_view(offset, {DType::f32, tensor.dims});
    return {};
  }

  // Some kernels of old releases stored the integers in tiles.
  Status check_format(const std::string& matrix) {
    const std::string name = weight_format_of(matrix);
    const TensorRange* range = weights_.find(name);
    // check_tensors() reports another type.
    if (range == nullptr || range->type.dtype != DType::u8 || range->type.bytes() != 1) return {};
    MOEC_ASSIGN(const std::string format, files_.read(*range));
    if (format.front() == 0) return {};
    return fail(
        "hf.quant_state",
        fmt::format("the weight format is {}, but must be 0 (rows)",
                    static_cast<int>(static_cast<unsigned char>(format.front()))),
        "save the checkpoint again with a current release of bitsandbytes",
        {.tensor = name, .file = at(weights_.files, range->file).path, .offset = range->offset});
  }

  StoredWeights& stored_;
  WeightTable& weights_;
  SmallTensors files_;
  bool has_block_ = false;
};

}  // namespace

Status read_quant_states(ModelConfig& model, FolderWeights& weights) {
  const WeightCoding coding = model.stored.coding;
  if (!is_of_bitsandbytes(coding)) return {};
  if (coding == WeightCoding::int8_rows)
    for (const auto& [name, range] : weights.signed_bytes) {
      weights.table.tensors.emplace(name, range);
      weights.not_representable.erase(name);
    }
  StateReader reader(model.stored, weights.table);
  for (const NeededTensor& tensor : needed_tensors(model)) MOEC_TRY(reader.read(tensor));
  return {};
}

}  // namespace moec
