#include "frontends/jobs/calibrate/calibration_text.h"

#include <algorithm>

#include "frontends/sources/hf/checkpoint.h"

namespace moec {

// The tokenizer is read only where a text needs it.
Result<TokenWindows> read_calibration_text(const CalibrateOptions& options,
                                           const ModelConfig& model) {
  TextVocabulary vocabulary{TokenizerKind::none, model.vocab};
  if (options.tokens_file.empty()) {
    MOEC_ASSIGN(vocabulary.tokenizer, detect_tokenizer(source_folder(options.source)));
  }
  return read_windows({"calibrate", options.texts, options.tokens_file, options.source}, vocabulary,
                      std::min(options.window, model.max_positions));
}

}  // namespace moec
