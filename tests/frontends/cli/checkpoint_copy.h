// A copy of a golden checkpoint that tests damage.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/files.h"
#include "tests/frontends/cli/command.h"

namespace moec {

class CheckpointCopy {
 public:
  using Json = nlohmann::ordered_json;

  // `name` distinguishes several copies within one test.
  explicit CheckpointCopy(const std::string& golden_case = "mixtral_a",
                          const std::string& name = "checkpoint")
      : folder_(fresh_folder(name)) {
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint_of(golden_case)))
      if (entry.path().filename() != "golden.safetensors")
        std::filesystem::copy(entry.path(), folder_ + "/" + entry.path().filename().string());
  }

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string read(const std::string& name) const { return read_file(path(name)); }
  void write(const std::string& name, const std::string& bytes) const {
    write_file(path(name), bytes);
  }

  void edit_config(const std::function<void(Json&)>& edit) const {
    Json config = Json::parse(read("config.json"));
    edit(config);
    write("config.json", config.dump());
  }

  // Edits the text of the header and keeps the payload. Offsets stay unchanged unless `edit`
  // changes them.
  void edit_header_text(const std::function<std::string(const std::string&)>& edit) const {
    const std::string file = read("model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const std::string header = edit(file.substr(8, length));
    length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    write("model.safetensors", bytes + header + file.substr(8 + file_header_length(file)));
  }
  void edit_header(const std::function<void(Json&)>& edit) const {
    edit_header_text([&](const std::string& text) {
      Json header = Json::parse(text);
      edit(header);
      return header.dump();
    });
  }

  // Overwrites the start of a tensor's payload with `bytes`.
  void overwrite(const std::string& tensor, const std::string& bytes) const {
    std::string file = read("model.safetensors");
    const uint64_t header = file_header_length(file);
    const Json json = Json::parse(file.substr(8, header));
    const uint64_t begin = json.at(tensor).at("data_offsets").at(0);
    file.replace(8 + header + begin, bytes.size(), bytes);
    write("model.safetensors", file);
  }

 private:
  static uint64_t file_header_length(const std::string& file) {
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    return length;
  }

  std::string folder_;
};

}  // namespace moec
