// A temporary folder for fuzz targets whose readers need files. The destructor removes it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace moec {

class ScratchFolder {
 public:
  // Also creates the subfolder `inner`.
  explicit ScratchFolder(const std::string& target, const std::string& inner = {})
      : path_(std::filesystem::temp_directory_path() / (target + "." + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_ / inner);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Replaces a file's content without truncating the file to 0 first, because some file systems
  // then wait for the disk.
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
