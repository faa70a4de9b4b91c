#include "frontends/cli/export_tables.h"

#include <cstring>

#include "backends/files/output_file.h"
#include "ir/scalar.h"
#include "models/rope.h"
#include "models/seeded_weights.h"

namespace moec {
namespace {

Result<manifest::FileRef> publish(OutputFile& file, const std::string& name) {
  MOEC_TRY(file.sync());
  MOEC_TRY(file.publish());
  return manifest::FileRef{name, static_cast<int64_t>(file.bytes()), file.digest()};
}

void append(std::vector<std::byte>& bytes, float value, DType dtype) {
  auto put = [&](auto bits) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof bits);
    std::memcpy(bytes.data() + at, &bits, sizeof bits);
  };
  if (dtype == DType::f16)
    put(f16_from_f32(value));
  else
    put(value);
}

}  // namespace

Result<manifest::TableFile> write_embedding(const Plan& plan, const WeightReader& reader,
                                            const std::string& folder, const std::string& name,
                                            StreamReport& report) {
  MOEC_ASSIGN(const Type type, view_type(plan.embedding));
  MOEC_ASSIGN(OutputFile file,
              OutputFile::create(folder + "/" + name, static_cast<uint64_t>(type.bytes())));
  MOEC_TRY(reader.stream(
      plan.weight_seed ? seeded_weights(plan.embedding, *plan.weight_seed) : plan.embedding,
      kDefaultTileBytes, [&](std::span<const std::byte> tile) { return file.write(tile); },
      report));
  MOEC_ASSIGN(manifest::FileRef ref, publish(file, name));
  return manifest::TableFile{std::move(ref), type.dtype, type.dims[0], type.dims[1]};
}

Result<manifest::RopeTable> write_rope(const Plan& plan, const std::string& folder,
                                       const std::string& name) {
  const RopeConfig& rope = plan.model.attention.rope;
  const RopeTable table = rope_table(rope, plan.build.context);
  MOEC_ASSIGN(OutputFile file, OutputFile::create(folder + "/" + name, 0));
  for (int64_t position = 0; position < table.positions; ++position) {
    std::vector<std::byte> row;
    for (const std::vector<float>* half : {&table.cos, &table.sin})
      for (int64_t i = 0; i < table.width; ++i)
        append(row, (*half)[static_cast<size_t>(position * table.width + i)], plan.build.dtype);
    MOEC_TRY(file.write(row));
  }
  MOEC_ASSIGN(manifest::FileRef ref, publish(file, name));
  return manifest::RopeTable{{std::move(ref), plan.build.dtype, table.positions, 2 * table.width},
                             rope.style};
}

}  // namespace moec
