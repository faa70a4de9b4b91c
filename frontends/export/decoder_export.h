// The folder of a target with a decoder graph (ir/target/target.h) in the format onnx: unmodified
// onnxruntime-genai loads and runs it.
//
//   OUT/model.onnx          the whole model, reading the data files and tables of the export
//   OUT/genai_config.json   the engine's configuration
//
// The shards' own graphs have static token widths as in every export.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/formats/genai/decoder_graph.h"
#include "backends/manifest/manifest.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// The names of the files above.
std::vector<std::string> decoder_files();

class DecoderExport {
 public:
  // Compiles shard `index` at the sample points and returns its part of the graph. `emitted` is the
  // shard as written, and `experts` its layout in the data file. Errors: those of compile_shard()
  // and decoder_part().
  Result<DecoderPart> part(size_t index, const CompiledShard& emitted, const ExportOptions& options,
                           const ExpertLayout& experts) const;

  // Makes the part of the first shard of each kind and mixer, to find errors before a file is
  // written.
  Status try_each_kind(const Plan& plan, const ExportOptions& options) const;

  // Writes both files. The manifest must be complete except for its side files. Errors: those of
  // decoder_graph(), genai_config() and of writing.
  Result<std::vector<manifest::FileRef>> write(const Manifest& manifest,
                                               std::map<std::string, DecoderPart> parts,
                                               const ExportOptions& options) const;

 private:
  friend Result<std::shared_ptr<const DecoderExport>> plan_decoder(const Plan& plan,
                                                                   const CompileOptions& compile);
  explicit DecoderExport(const Plan& plan);
  bool is_per_token(size_t index) const;

  // Copies of the plan with the token widths and contexts of the sample points: two with symbolic
  // numbers of tokens, and one for shards that run once per token.
  Plan few_rows_, more_rows_, one_token_;
};

// Returns null if the target has no such graph. Errors: genai.family (the model keeps no cache
// or is not a text generator), genai.form (options that the graph cannot express).
Result<std::shared_ptr<const DecoderExport>> plan_decoder(const Plan& plan,
                                                          const CompileOptions& compile);

}  // namespace moec
