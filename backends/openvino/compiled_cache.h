// Compiled models that are kept for later runs, as files of kCompiledFolder (file_names.h) in an
// export:
//
//   <shard>.t<tokens>.<device>.<key>.blob
//
// The key is a digest of all that the result depends on, so that a file of another export, another
// OpenVINO or another device is not found; it is replaced. A file holds what OpenVINO saved, the
// results of a test run (test_run.h), and a digest of both. It is used only if the digest is right
// and the restored model gives these results; else the model is compiled. What OpenVINO cannot
// restore is not kept. A file is written under another name and then renamed, so that several
// programs may share the folder.
#pragma once

#include <memory>
#include <string>

#include "backends/openvino/openvino_api.h"
#include "backends/runtime/session/engine.h"

namespace moec {

class CompiledCache {
 public:
  CompiledCache(OpenVinoLibrary& library, OpenVinoCompile options)
      : library_(library), options_(std::move(options)) {}

  // The model of the graph, from the folder or compiled and kept there. Errors: engine.compile,
  // engine.cache (the folder cannot be written), those of reading the sizes and times of the
  // export's files.
  Result<std::unique_ptr<OpenVinoModel>> get(const ShardGraph& graph);

 private:
  std::unique_ptr<OpenVinoModel> restored(const std::string& path) const;
  // Whether the file was written: the model could be restored from it.
  Result<bool> keep(OpenVinoModel& model, const std::string& path) const;

  OpenVinoLibrary& library_;
  OpenVinoCompile options_;
};

}  // namespace moec
