#include "frontends/sources/hf/index.h"

#include "tests/files.h"
#include "tests/frontends/sources/hf/folder.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

Result<WeightIndex> parse(const std::string& text) { return parse_index(text, "i.json"); }

std::string file_bytes(std::initializer_list<std::string> names) {
  std::string header = "{";
  size_t at = 0;
  for (const std::string& name : names) {
    header += (at ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" +
              std::to_string(at) + "," + std::to_string(at + 4) + "]}";
    at += 4;
  }
  return safetensors_bytes(header + "}", at);
}

TEST(Index, ReadsTheMapWithoutTheTotal) {
  auto index =
      parse(R"({"metadata": {"total_size": 1e99}, "weight_map": {"a": "m-1.safetensors"}})");
  ASSERT_TRUE(index.has_value()) << render(index.error());
  EXPECT_EQ(index->file_of.at("a"), "m-1.safetensors");
}

TEST(Index, RequiresBareFileNames) {
  for (const char* name :
       {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "a\\\\b.safetensors",
        "c:x.safetensors", "x.bin", ".safetensors", "..safetensors", "", "x\\u0000.safetensors"}) {
    auto index = parse(std::string(R"({"weight_map": {"t": ")") + name + "\"}}");
    expect_error(index, "index.file_name", "must be a file name that ends in");
  }
  auto index = parse(R"({"weight_map": {"t": "../x.safetensors"}})");
  expect_error(index, "index.file_name",
               "the file of \"t\" is \"../x.safetensors\", but must be a file name that ends in "
               ".safetensors");
  EXPECT_EQ(index.error()[0].place.line, 1u);
  expect_error(parse(R"({"weight_map": {"t": 3}})"), "index.file_name", "is 3");
}

TEST(Index, RejectsInvalidDocuments) {
  expect_error(parse("[]"), "index.not_object", "");
  expect_error(parse("{}"), "index.weight_map", "\"weight_map\"");
  expect_error(parse(R"({"weight_map": []})"), "index.weight_map", "");
  expect_error(parse(R"({"weight_map": {}})"), "index.empty", "");
  expect_error(parse(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})"),
               "json.duplicate_key", "\"a\"");
  expect_error(parse("{"), "json.syntax", "");
}

TEST(FolderWeights, PrefersTheSingleFile) {
  std::string folder = empty_folder("single");
  write_file(folder + "/model.safetensors", file_bytes({"a", "b"}));
  write_file(folder + "/model.safetensors.index.json", "not even JSON");
  auto weights = read_folder_weights(folder);
  ASSERT_TRUE(weights.has_value()) << render(weights.error());
  EXPECT_EQ(weights->table.tensors.size(), 2u);
  EXPECT_EQ(weights->table.files.size(), 1u);
  EXPECT_EQ(weights->table.files[0].bytes,
            std::filesystem::file_size(folder + "/model.safetensors"));
}

TEST(FolderWeights, ReadsSeveralFiles) {
  std::string folder = empty_folder("several");
  write_file(folder + "/m-2.safetensors", file_bytes({"a"}));
  write_file(folder + "/m-1.safetensors", file_bytes({"b", "c"}));
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors",
                                 "c": "m-1.safetensors"}})");
  auto weights = read_folder_weights(folder);
  ASSERT_TRUE(weights.has_value()) << render(weights.error());
  ASSERT_EQ(weights->table.files.size(), 2u);
  EXPECT_THAT(weights->table.files[0].path, testing::EndsWith("m-1.safetensors"));
  EXPECT_EQ(weights->table.find("a")->file, 1u);
  EXPECT_EQ(weights->table.find("c")->file, 0u);
  EXPECT_EQ(render(weights->warnings), "");
}

TEST(FolderWeights, RejectsFoldersWithoutWeights) {
  expect_error(read_folder_weights(empty_folder("none")), "hf.no_weights",
               "there is neither model.safetensors nor model.safetensors.index.json");
}

TEST(FolderWeights, RejectsAMissingFile) {
  std::string folder = empty_folder("absent_file");
  write_file(folder + "/model.safetensors.index.json", R"({"weight_map": {"a": "m.safetensors"}})");
  expect_error(read_folder_weights(folder), "index.absent_file",
               "the index names \"m.safetensors\", which is missing");
}

TEST(FolderWeights, WarnsAboutAMissingTensor) {
  std::string folder = empty_folder("absent_tensor");
  write_file(folder + "/m.safetensors", file_bytes({"b"}));
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}})");
  auto weights = read_folder_weights(folder);
  ASSERT_TRUE(weights) << render(weights.error());
  ASSERT_EQ(weights->warnings.size(), 1u);
  EXPECT_EQ(weights->warnings[0].code, "index.absent_tensor");
  EXPECT_EQ(weights->warnings[0].place.tensor, "a");
}

TEST(FolderWeights, WarnsAboutRepeatedAndUnlistedTensors) {
  std::string folder = empty_folder("warned");
  write_file(folder + "/m.safetensors", file_bytes({"a", "c", "extra"}));
  write_file(folder + "/n.safetensors", file_bytes({"a", "b"}));
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"a": "n.safetensors", "b": "n.safetensors",
                                 "c": "m.safetensors"}})");
  auto weights = read_folder_weights(folder);
  ASSERT_TRUE(weights.has_value()) << render(weights.error());
  ASSERT_EQ(weights->warnings.size(), 2u);
  EXPECT_EQ(weights->warnings[0].code, "index.twice");
  EXPECT_THAT(weights->warnings[0].cause, testing::HasSubstr("names \"n.safetensors\""));
  EXPECT_EQ(weights->warnings[1].code, "index.not_listed");
  EXPECT_EQ(weights->warnings[1].place.tensor, "extra");
  EXPECT_EQ(weights->table.find("extra"), nullptr);
  EXPECT_EQ(weights->table.find("a")->file, 1u);
}

TEST(FolderWeights, RejectsATruncatedFile) {
  std::string folder = empty_folder("truncated");
  std::string bytes = file_bytes({"a", "b"});
  write_file(folder + "/model.safetensors", bytes.substr(0, bytes.size() - 1));
  expect_error(read_folder_weights(folder), "safetensors.truncated", "exceed the file");
}

}  // namespace
}  // namespace moec
