// A model's tokenizer, opened lazily by the first text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tokenizer/tokenizer.h"

namespace moec {

class ModelTokenizer {
 public:
  using Open = std::function<Result<Tokenizer>()>;
  // `open` is empty for a model without a tokenizer. `vocab`: number of token ids of the model.
  ModelTokenizer(Open open, int64_t vocab);
  // Uses the folder's tokenizer.json; exists() is false if the file is missing.
  static ModelTokenizer of_folder(const std::string& folder, int64_t vocab);

  bool exists() const { return opened_ != nullptr; }
  int64_t vocab() const { return vocab_; }
  // Returns the opened tokenizer, or null if there is none. Errors: those of `open`.
  Result<const Tokenizer*> get() const;
  // Returns *this if it can be opened. Otherwise adds the errors to `notes` and returns a tokenizer
  // for which exists() is false, because token ids still work.
  ModelTokenizer or_none(Diagnostics& notes) const;
  // Encodes a text and checks the ids against `vocab`. Errors: those of get() and
  // Tokenizer::encode(), tokenizer.missing, tokenizer.vocabulary (an id is outside the model's
  // vocabulary).
  Result<std::vector<int64_t>> encode(std::string_view text,
                                      SpecialTokens special = SpecialTokens::add) const;

 private:
  struct Opened;

  std::shared_ptr<Opened> opened_;  // shared by copies
  int64_t vocab_ = 0;
};

}  // namespace moec
