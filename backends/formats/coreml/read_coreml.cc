#include "backends/formats/coreml/read_coreml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>
#include <mlmodel.pb.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "backends/formats/coreml/function_reader.h"
#include "backends/formats/coreml/package.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"

namespace moec {

namespace {

// Finds fields of the format that mlmodel.proto omits, so that they are rejected instead of
// ignored.

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// The first field that mlmodel.proto does not define, such as "field 21 of ArrayFeatureType"; empty
// if there is none. Skips the program's attributes, which only describe how it was built, and its
// functions, of which only the chosen one is searched: a package may have one per expert, and this
// search takes longer than parsing. Protobuf keeps unknown fields when it parses a message. The
// recursion is bounded, because the parser limits the depth of messages.
std::string find_in(const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty())
    return fmt::format("field {} of {}", unknown.field(0).number(),
                       message.GetDescriptor()->name());
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->full_name() == "moec.mlmodel.Program.attributes" ||
        field->full_name() == "moec.mlmodel.Program.functions")
      continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string found =
          find_in(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field));
      if (!found.empty()) return found;
    }
  }
  return {};
}

namespace fs = std::filesystem;

// Version 6 introduced ML Programs. Versions above 9 may have features that the reader does not
// know.
constexpr int kLeastSpec = 6, kLargestSpec = 9;  // iOS 15 to iOS 18
constexpr int kHalfPortSpec = 7;                 // f16 inputs and outputs
constexpr int kStateSpec = 9;                    // states, several functions

tl::unexpected<Diagnostics> wrong_model(std::string code, std::string cause) {
  return fail(std::move(code), std::move(cause), "export the model again");
}

// The name of the function to read: `wanted`, the default, or the only one.
Result<std::string> choose_function(const mlmodel::Model& model, const std::string& wanted) {
  const auto& functions = model.mlprogram().functions();
  const mlmodel::ModelDescription& description = model.description();
  std::string name = wanted.empty() ? description.defaultfunctionname() : wanted;
  if (name.empty() && functions.size() == 1) name = functions.begin()->first;
  if (functions.contains(name)) return name;
  // Sorted, because the map of protobuf has no fixed order.
  std::set<std::string> known;
  for (const auto& [known_name, function] : functions) known.insert(known_name);
  return fail("coreml.function", fmt::format("the package has no function \"{}\"", name),
              fmt::format("choose one of its functions: {}", fmt::join(known, ", ")));
}

// A description either lists all functions of the program and has no top-level ports, or lists
// none.
Status check_functions(const mlmodel::Model& model) {
  const mlmodel::ModelDescription& description = model.description();
  const auto& functions = model.mlprogram().functions();
  for (const auto& [key, value] : model.mlprogram().attributes())
    if (key != "buildInfo")
      return wrong_model("coreml.function", "the program has the unsupported attribute " + key);
  if (description.functions().empty())
    return functions.size() == 1
               ? Status()
               : wrong_model("coreml.function",
                             "the program has several functions, but the description lists none");
  bool good = static_cast<size_t>(description.functions_size()) == functions.size() &&
              functions.contains(description.defaultfunctionname()) &&
              description.input().empty() && description.output().empty() &&
              description.state().empty();
  for (const auto& function : description.functions()) good &= functions.contains(function.name());
  return good ? Status()
              : wrong_model("coreml.function",
                            "the description and the program have different functions");
}

// N of "CoreMLN"; 0 for any other text.
int opset_number(std::string_view opset) {
  constexpr std::string_view kPrefix = "CoreML";
  if (!opset.starts_with(kPrefix)) return 0;
  return parse_number<int>(opset.substr(kPrefix.size())).value_or(0);
}

// Returns the body of the function. The format allows one body per opset, but the reader accepts
// only a single body.
Result<const mlmodel::Block*> body_of(const mlmodel::Function& function, int spec) {
  // Each specification version adds an opset: 6 added CoreML5, 7 added CoreML6 and so on.
  const int opset = opset_number(function.opset());
  const auto body = function.block_specializations().find(function.opset());
  if (opset < kLeastSpec - 1 || opset > spec - 1 || function.block_specializations_size() != 1 ||
      body == function.block_specializations().end())
    return wrong_model(
        "coreml.opset",
        fmt::format("a program of specification version {} must have one body, with an opset from "
                    "CoreML{} to CoreML{}",
                    spec, kLeastSpec - 1, spec - 1));
  const mlmodel::Block& block = body->second;
  if (!function.attributes().empty() || !block.attributes().empty() || !block.inputs().empty())
    return wrong_model("coreml.function", "the function has unsupported attributes");
  return &block;
}

// Fails if the model uses a feature that its specification version lacks.
Status check_spec(const mlmodel::Model& model, const Ports& ports) {
  const int spec = model.specificationversion();
  bool half = false;
  for (const PortMap& map : {ports.inputs, ports.outputs})
    for (const auto& [name, port] : map) half |= port.dtype == DType::f16;
  if (spec < kStateSpec && (!ports.states.empty() || !model.description().functions().empty()))
    return wrong_model(
        "coreml.spec_version",
        fmt::format("specification version {} does not support states or several functions", spec));
  if (spec < kHalfPortSpec && half)
    return wrong_model("coreml.spec_version",
                       fmt::format("specification version {} does not support f16 ports", spec));
  return {};
}

// Returns nullopt for a package without a range.
Result<std::optional<ReadWidth>> read_width(const CoremlMetadata& metadata, int64_t tokens) {
  if (!metadata.range) return std::nullopt;
  const WidthRange& range = *metadata.range;
  if (tokens == 0) tokens = range.least;
  if (tokens >= range.least && tokens <= range.largest) return ReadWidth{range, tokens};
  return fail("coreml.dynamic_shape",
              fmt::format("the package supports {} to {} tokens, but {} were requested",
                          range.least, range.largest, tokens),
              "choose a width in that range");
}

Status check_known(const Message& message) {
  const std::string field = find_in(message);
  return field.empty() ? Status() : wrong_model("coreml.parse", field + " is unsupported");
}

// Replaces the contents of all length-delimited fields with this number in a serialized message.
// Returns nullopt if the message is malformed.
std::optional<std::string> replace_fields(
    std::string_view message, int number,
    const std::function<std::optional<std::string>(std::string_view)>& replaced) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  std::string result;
  StringOutputStream stream(&result);
  CodedOutputStream out(&stream);
  int begin = 0;
  while (const uint32_t tag = in.ReadTag()) {
    uint32_t size = 0;
    const void* contents = nullptr;
    int left = 0;
    const bool chosen =
        tag == WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    if (!chosen && !WireFormatLite::SkipField(&in, tag)) return std::nullopt;
    if (chosen) {
      if (!in.ReadVarint32(&size) || !in.GetDirectBufferPointer(&contents, &left) ||
          size > static_cast<uint32_t>(left))
        return std::nullopt;
      const auto text = replaced({static_cast<const char*>(contents), size});
      if (!text) return std::nullopt;
      out.WriteTag(tag);
      out.WriteVarint32(static_cast<uint32_t>(text->size()));
      out.WriteString(*text);
      in.Skip(static_cast<int>(size));
    } else {
      out.WriteRaw(message.data() + begin, in.CurrentPosition() - begin);
    }
    begin = in.CurrentPosition();
  }
  if (!in.ConsumedEntireMessage()) return std::nullopt;
  out.Trim();
  return result;
}

// Returns the bytes of a model in which every function except `wanted` is empty. Parsing all
// functions of a package for each of them takes quadratic time: 85 ms for one of 258 functions,
// 15 ms this way. Returns nullopt for malformed bytes, whose errors parse_model() reports.
std::optional<std::string> keep_function(std::string_view model, const std::string& wanted) {
  return replace_fields(
      model, mlmodel::Model::kMlProgramFieldNumber, [&](std::string_view program) {
        return replace_fields(program, mlmodel::Program::kFunctionsFieldNumber,
                              [&](std::string_view entry) -> std::optional<std::string> {
                                // An entry of a map is a message with the key as field 1 and the
                                // value as field 2.
                                bool keep = false;
                                const auto compare = [&](std::string_view key) {
                                  keep = key == wanted;
                                  return std::string(key);
                                };
                                if (!replace_fields(entry, 1, compare)) return std::nullopt;
                                if (keep) return std::string(entry);
                                return replace_fields(
                                    entry, 2, [](std::string_view) { return std::string(); });
                              });
      });
}

// `function` is the only one that will be read; empty: the default one.
Result<mlmodel::Model> parse_model(std::span<const std::byte> bytes, const std::string& function) {
  mlmodel::Model model;
  // ParseFromArray() has an int for the size. load() has checked the size of a file, but
  // parse_coreml() accepts any bytes.
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return wrong_model("coreml.too_large", "the model is 2 GiB or larger");
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::optional<std::string> kept;
  if (!function.empty()) kept = keep_function(text, function);
  if (kept) text = *kept;
  if (!model.ParseFromArray(text.data(), static_cast<int>(text.size())) || !model.has_mlprogram() ||
      model.mlprogram().version() != 1)
    return wrong_model("coreml.parse", "the file is damaged or not an ML Program");
  MOEC_TRY(check_known(model));
  const int spec = model.specificationversion();
  if (spec < kLeastSpec || spec > kLargestSpec)
    return wrong_model("coreml.spec_version",
                       fmt::format("specification version {} is unsupported, expected {} to {}",
                                   spec, kLeastSpec, kLargestSpec));
  return model;
}

Result<LoadedShard> read_model(std::span<const std::byte> bytes, const std::string& path,
                               const CoremlReadOptions& options) {
  MOEC_ASSIGN(const mlmodel::Model model, parse_model(bytes, options.function));
  MOEC_TRY(check_functions(model));
  MOEC_ASSIGN(const std::string name, choose_function(model, options.function));
  const mlmodel::Function& function = model.mlprogram().functions().at(name);
  MOEC_TRY(check_known(function));
  MOEC_ASSIGN(const mlmodel::Block* block, body_of(function, model.specificationversion()));
  // A description that lists no functions has its ports and metadata under no function name.
  const std::string described = model.description().functions().empty() ? "" : name;
  FunctionContext context;
  context.name = name;
  context.folder = fs::path(path).parent_path().string();
  MOEC_ASSIGN(context.metadata, read_metadata(model.description().metadata(), described));
  MOEC_ASSIGN(const auto width, read_width(context.metadata, options.tokens));
  MOEC_ASSIGN(context.ports, read_ports(model.description(), described, width));
  MOEC_TRY(check_spec(model, context.ports));
  return read_function(function, *block, context);
}

Result<std::string> load(const std::string& path) {
  const auto file = RegularFile::open(path);
  if (!file)
    return fail("coreml.open", file.error().front().cause, "check the path and its permissions",
                {.file = path});
  if (file->size() > static_cast<uint64_t>(std::numeric_limits<int>::max()))
    return fail("coreml.too_large", "the model is 2 GiB or larger", "split the model",
                {.file = path});
  return file->read(0, file->size());
}

}  // namespace

Result<LoadedShard> parse_coreml(std::span<const std::byte> bytes, const std::string& path,
                                 const CoremlReadOptions& options) {
  return with_file(read_model(bytes, path, options), path);
}

Result<LoadedShard> read_coreml(const std::string& path, const CoremlReadOptions& options) {
  MOEC_ASSIGN(const std::string model, find_model(path));
  MOEC_ASSIGN(const std::string bytes, load(model));
  return parse_coreml(std::as_bytes(std::span(bytes)), model, options);
}

}  // namespace moec
