// The tokenizer of a model, which is opened when the first text needs it.
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
  // `open` is empty for a model without a tokenizer. `vocab` is how many tokens the model has.
  ModelTokenizer(Open open, int64_t vocab);
  // That of a folder: its tokenizer.json, or none if it has no such file.
  static ModelTokenizer of_folder(const std::string& folder, int64_t vocab);

  bool exists() const { return opened_ != nullptr; }
  int64_t vocab() const { return vocab_; }
  // Null if there is none. Errors: those of `open`.
  Result<const Tokenizer*> get() const;
  // This one, or one that does not exist if this cannot be opened, with the reasons as notes: for
  // models that are given token ids.
  ModelTokenizer or_none(Diagnostics& notes) const;
  // The tokens of a text, all of which the model has. Errors: those of get() and
  // Tokenizer::encode(), tokenizer.missing, tokenizer.vocabulary (the tokenizer is of another
  // model).
  Result<std::vector<int64_t>> encode(std::string_view text,
                                      SpecialTokens special = SpecialTokens::add) const;

 private:
  struct Opened;

  std::shared_ptr<Opened> opened_;  // of all copies
  int64_t vocab_ = 0;
};

}  // namespace moec
