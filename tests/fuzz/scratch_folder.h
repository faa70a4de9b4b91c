// A temporary folder for a fuzz target whose reader takes files. It is removed when the program
// ends.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace moec {

class ScratchFolder {
 public:
  // `inner` is a folder in it that is created, too.
  explicit ScratchFolder(const std::string& target, const std::string& inner = {})
      : path_(std::filesystem::temp_directory_path() / (target + "." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_ / inner);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Replaces the content of a file of the folder, without truncating it to 0 first: some file
  // systems then wait for the disk.
  void write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary | std::ios::app).close();
    std::filesystem::resize_file(file, bytes.size());
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace moec
