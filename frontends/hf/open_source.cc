#include "frontends/hf/open_source.h"

#include <filesystem>

#include "frontends/hf/config.h"
#include "models/build/needed_tensors.h"
#include "models/published/published.h"

namespace moec {

Result<Checkpoint> open_source(const std::string& folder,
                               const std::optional<std::string>& family_file, TensorsEqual& same) {
  if (!family_file) return open_checkpoint(folder, same);
  MOEC_ASSIGN(const Family family, read_family_file(*family_file));
  return open_checkpoint(folder, same, &family);
}

static Checkpoint without_files(ModelConfig config) {
  Checkpoint checkpoint;
  checkpoint.weights = declared_weights(config, DType::bf16);
  checkpoint.config = std::move(config);
  return checkpoint;
}

Result<Checkpoint> open_config_only(const std::string& source,
                                    const std::optional<std::string>& family_file) {
  if (!family_file) return open_config(source).map(without_files);
  MOEC_ASSIGN(const Family family, read_family_file(*family_file));
  return open_config(source, &family).map(without_files);
}

static bool has_weights(const std::string& source) {
  std::error_code error;
  for (const char* file : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(std::filesystem::path(source) / file, error)) return true;
  return false;
}

Result<Checkpoint> open_for_plan(const std::string& source,
                                 const std::optional<std::string>& family_file,
                                 TensorsEqual& same) {
  std::error_code error;
  if (has_weights(source)) return open_source(source, family_file, same);
  if (std::filesystem::exists(source, error)) return open_config_only(source, family_file);
  MOEC_ASSIGN(const PublishedModel* model, find_published(source));
  MOEC_ASSIGN(HfConfig config, read_config(model->config, model->name + "/config.json"));
  return without_files(std::move(config.model));
}

}  // namespace moec
