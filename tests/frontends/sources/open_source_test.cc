#include "frontends/sources/open_source.h"

#include <gmock/gmock.h>

#include "tests/frontends/cli/command.h"

namespace moec {
namespace {

std::string folder_of(const std::vector<std::string>& files) {
  std::string folder = fresh_folder("model");
  for (const std::string& file : files) write_file(folder + "/" + file, "GGUF");
  return folder;
}

TEST(SourceInFolder, SelectsTheOnlyGgufModel) {
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{"README.md", "m.gguf"},
        {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}}) {
    const std::string folder = folder_of(files);
    EXPECT_EQ(source_in_folder(folder),
              folder + "/" + (files[0] == "README.md" ? files[1] : files[0]));
  }
}

TEST(SourceInFolder, ReturnsOtherSourcesUnchanged) {
  for (const std::vector<std::string>& files : {std::vector<std::string>{},
                                                {"m.gguf", "mmproj.gguf"},
                                                {"config.json", "m.gguf"},
                                                {"a-00001-of-00002.gguf", "b-00001-of-00002.gguf"},
                                                {"a-00001-of-00002.gguf", "a-00001-of-00003.gguf"},
                                                {"my-best-of-a.gguf", "my-last-of-b.gguf"}}) {
    const std::string folder = folder_of(files);
    EXPECT_EQ(source_in_folder(folder), folder);
  }
  EXPECT_EQ(source_in_folder("qwen3-30b-a3b"), "qwen3-30b-a3b");
  EXPECT_EQ(source_in_folder(source_path("README.md")), source_path("README.md"));
}

// The file has no tensors, so the GGUF reader rejects it, which shows that it was selected.
TEST(SourceInFolder, IsUsedByCommands) {
  const std::string folder = folder_of({"m.gguf"});
  for (const char* command : {"plan", "inspect", "tokenize"}) {
    std::vector<std::string> words = {command, folder};
    if (words[0] == "tokenize") words.insert(words.end(), {"--prompt", "a"});
    EXPECT_THAT(run_command(words).err,
                testing::HasSubstr("[gguf.too_short] " + folder + "/m.gguf"))
        << command;
  }
}

}  // namespace
}  // namespace moec
