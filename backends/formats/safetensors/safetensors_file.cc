#include "backends/formats/safetensors/safetensors_file.h"

#include "ir/base/invariant.h"

namespace moec {

Result<SafetensorsFile> SafetensorsFile::create(const std::string& folder,
                                                const SafetensorsPart& part) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, part.name, {}}, part.file_bytes()));
  MOEC_TRY(file.write(std::as_bytes(std::span(part.header))));
  return SafetensorsFile(std::move(file), part.file_bytes());
}

Status SafetensorsFile::write(std::span<const std::byte> bytes) {
  // The file never exceeds the planned size, so the difference cannot wrap around.
  MOEC_CHECK(bytes.size() <= bytes_ - file_.bytes(), "{} received more than the planned {} bytes",
             file_.path(), bytes_);
  return file_.write(bytes);
}

OutputFile SafetensorsFile::finish() && {
  MOEC_CHECK(file_.bytes() == bytes_, "{} lacks {} of its {} bytes", file_.path(),
             bytes_ - file_.bytes(), bytes_);
  return std::move(file_);
}

}  // namespace moec
