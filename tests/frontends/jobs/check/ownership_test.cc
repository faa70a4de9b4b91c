// The metadata of emitted files maps weights to experts. `moec check` verifies the map against the
// graphs and finds each kind of edit.
#include <gmock/gmock.h>
#include <mlmodel.pb.h>
#include <onnx/onnx_pb.h>
#include <tflite_generated.h>

#include <cstring>

#include "tests/frontends/jobs/check/edited_export.h"

namespace moec {
namespace {

using testing::HasSubstr;

constexpr const char* kOnnxFile = "moe/L00.t1.onnx";

template <class Message>
Message load_message(const std::string& path) {
  Message message;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(message.ParseFromIstream(&file)) << path;
  return message;
}

template <class Message>
void save_message(const Message& message, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  EXPECT_TRUE(message.SerializeToOstream(&file)) << path;
}

using EditText = std::function<std::string(std::string)>;  // an empty result removes the entry

void edit_onnx(const std::string& path, const EditText& edit) {
  auto model = load_message<onnx::ModelProto>(path);
  auto& entries = *model.mutable_metadata_props();
  for (int i = 0; i < entries.size(); ++i) {
    if (entries[i].key() != "moec.weights") continue;
    entries[i].set_value(edit(entries[i].value()));
    if (entries[i].value().empty()) entries.DeleteSubrange(i, 1);
    return save_message(model, path);
  }
  ADD_FAILURE() << path << " states no owners";
}

void edit_coreml(const std::string& path, const EditText& edit) {
  auto model = load_message<mlmodel::Model>(path);
  auto& entries = *model.mutable_description()->mutable_metadata()->mutable_userdefined();
  ASSERT_TRUE(entries.contains("moec.weights")) << path;
  entries["moec.weights"] = edit(entries["moec.weights"]);
  if (entries["moec.weights"].empty()) entries.erase("moec.weights");
  save_message(model, path);
}

// Writes the edited text into the padding between the flatbuffer and the weights.
void edit_tflite(const std::string& path, const EditText& edit) {
  std::string bytes = read_file(path);
  tflite::Model& model = *tflite::GetMutableModel(bytes.data());
  size_t weights = bytes.size();
  for (const tflite::Buffer* buffer : *model.buffers())
    if (buffer->offset() > 1) weights = std::min<size_t>(weights, buffer->offset());
  for (const tflite::Metadata* entry : *model.metadata()) {
    if (entry->name()->str() != "moec.t1.weights") continue;
    auto& buffer = *reinterpret_cast<flatbuffers::Table*>(
        model.mutable_buffers()->GetMutableObject(entry->buffer()));
    const auto* old = model.buffers()->Get(entry->buffer())->data();
    const std::string text = edit(std::string(old->begin(), old->end()));
    // Readers ignore entries of other programs.
    if (text.empty()) bytes[bytes.find("moec.t1.weights")] = 'x';
    const auto count = static_cast<flatbuffers::uoffset_t>(text.size());
    char* vector = bytes.data() + (weights - sizeof count - count) / 16 * 16 - sizeof count;
    ASSERT_EQ(std::string(vector, sizeof count + count).find_first_not_of('\0'), std::string::npos);
    std::memcpy(vector, &count, sizeof count);
    std::copy(text.begin(), text.end(), vector + sizeof count);
    ASSERT_TRUE(buffer.SetPointer(tflite::Buffer::VT_DATA, reinterpret_cast<uint8_t*>(vector)));
    return write_file(path, bytes);
  }
  ADD_FAILURE() << path << " states no owners";
}

struct Format {
  const char* name;
  Words flags;
  const char* file;
  void (*edit)(const std::string& path, const EditText& edit);
};

const Format kFormats[] = {
    {"onnx", {}, kOnnxFile, edit_onnx},
    {"coreml",
     {"--target", "ane"},
     "moe/L00.t1.mlpackage/Data/com.apple.CoreML/model.mlmodel",
     edit_coreml},
    {"tflite", {"--target", "litert"}, "moe/L00.tflite", edit_tflite},
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

// Returns an edit that replaces the first occurrence of `from`, which must exist.
EditText replace(const std::string& from, const std::string& to) {
  return [=](std::string text) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
}

// Edits the ownership map of shard L00.moe in an export of the given format, then runs moec check.
Outcome check_edited(const Format& format, const EditText& edit) {
  const EditedExport edited("mixtral_a", format.flags);
  format.edit(edited.path(format.file), edit);
  edited.bring_manifest_in_line();
  return edited.check();
}

class Ownership : public testing::TestWithParam<Format> {
 protected:
  static void expect_found(const EditText& edit, const std::string& message) {
    const Outcome outcome = check_edited(GetParam(), edit);
    EXPECT_EQ(outcome.exit_code, kExitFellShort) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("error[coverage.ownership]"));
    EXPECT_THAT(outcome.out, HasSubstr("shard L00.moe"));
    EXPECT_THAT(outcome.out, HasSubstr(GetParam().file));
    EXPECT_THAT(outcome.out, HasSubstr(message));
  }
};

TEST_P(Ownership, AcceptsAnUnchangedMap) {
  const Outcome outcome = check_edited(GetParam(), [](std::string text) {
    EXPECT_THAT(text, HasSubstr("expert 0 3 1 0 "));
    EXPECT_THAT(text, HasSubstr("routing 0 0 5 "));
    EXPECT_THAT(text, HasSubstr("plain "));
    return text;
  });
  expect_fine(outcome);
}

TEST_P(Ownership, FindsAWrongExpert) {
  expect_found(replace("expert 0 2 1 0 ", "expert 0 3 1 0 "),
               "belongs to expert 3 of layer 0, but its graph uses it for expert 2 of layer 0");
}

TEST_P(Ownership, FindsAWrongLayer) {
  expect_found(replace("expert 0 1 1 0 ", "expert 1 1 1 0 "),
               "belongs to expert 1 of layer 1, but its graph uses it for expert 1 of layer 0");
}

TEST_P(Ownership, FindsAnExpertMarkedPlain) {
  expect_found(replace("expert 0 1 1 0 ", "plain "),
               "belongs to no expert, but its graph uses it for expert 1 of layer 0");
}

TEST_P(Ownership, FindsAWrongRouterRowAxis) {
  expect_found(replace("routing 0 0 5 0 ", "routing 0 0 5 1 "), "the router of layer 0");
}

TEST_P(Ownership, FindsAnUnknownWeight) {
  expect_found(
      [](const std::string& text) { return text + "expert 0 3 1 0 nothing.weight\n"; },
      "the file states that nothing.weight belongs to expert 3 of layer 0, but has no such "
      "weight");
}

TEST_P(Ownership, FindsAnOmittedWeight) {
  expect_found([](const std::string& text) { return text.substr(text.find('\n') + 1); },
               "the file does not state the owner of");
}

TEST_P(Ownership, FindsAMissingMap) {
  expect_found([](const std::string&) { return std::string(); },
               "the file does not state which weights belong to which expert");
}

TEST_P(Ownership, RejectsMalformedMaps) {
  const Outcome outcome =
      check_edited(GetParam(), [](const std::string&) { return std::string("expert 0 2\n"); });
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr(std::string("error[") + GetParam().name + ".metadata]"));
}

INSTANTIATE_TEST_SUITE_P(Formats, Ownership, testing::ValuesIn(kFormats),
                         [](const auto& info) { return std::string(info.param.name); });

// A bank states blocks; groups and whole layers state the model's expert numbers.
TEST(OwnershipForms, AcceptsBanksGroupsAndWholeLayers) {
  const std::vector<Words> forms = {
      {"--experts", "bank"},
      {"--routing", "host", "--experts-per-shard", "2"},
      {"--layers-per-shard", "2"},
      {"--target", "ane", "--tokens", "1,4", "--widths", "functions"},
      {"--target", "ane", "--tokens", "1,4", "--widths", "range"},
  };
  for (const Words& flags : forms) expect_fine(EditedExport("mixtral_a", flags).check());
}

TEST(OwnershipForms, FindsWrongBankBlocks) {
  const EditedExport edited("mixtral_a", {"--experts", "bank"});
  edit_onnx(edited.path(kOnnxFile), replace("expert 0 0 5 0 ", "expert 0 0 5 1 "));
  edited.bring_manifest_in_line();
  EXPECT_THAT(edited.check().out,
              HasSubstr("belongs to experts 0 to 4 of layer 0, along axis 1, but its graph uses it "
                        "for experts 0 to 4 of layer 0, along axis 0"));
}

}  // namespace
}  // namespace moec
