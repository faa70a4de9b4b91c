// An option of the commands that plan or make exports, as a row of a table. From the rows follow
// the flags and their help, the refusals for other formats, the entries of the journal and the
// option table of the documents.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontends/export/options/export_options.h"
#include "ir/model/plan.h"

namespace moec {

// The words that the user gave for one option; a single one unless the option is a list.
using Words = std::vector<std::string>;

// The given options by their long name ("--tokens").
using GivenOptions = std::map<std::string_view, Words>;

// flag      no value
// text      one word
// whole     one whole number from `least` to `most`
// positive  one finite number above 0
// list      several words, separated by commas or spaces
// wholes    several whole numbers
// repeated  one word each time that the option is given
enum class OptionKind : uint8_t { flag, text, whole, positive, list, wholes, repeated };

// The commands that have an option.
enum class OptionUsers : uint8_t {
  exporting,  // export
  device,     // export, plan
  planning,   // export, plan, place
  passes      // export, plan, place, opt
};

// The formats that an option has an effect for.
enum class OptionFormats : uint8_t { all, graphs, onnx, coreml, gguf };

struct OptionValue {
  OptionKind kind = OptionKind::flag;
  std::string_view initial;    // as --help shows it; empty: none
  std::string_view choices;    // the accepted words, separated by spaces; empty: any
  Words (*names)() = nullptr;  // the same of an enum
  int64_t least = 1, most = INT64_MAX;

  // The accepted words; empty: any.
  Words accepted() const;
};

struct OptionScope {
  std::string_view group;  // of --help-all
  OptionUsers users = OptionUsers::exporting;
  OptionFormats formats = OptionFormats::all;
};

// What an export was made with: as the target prefers, as the user wants and as the model needs.
struct Resolved {
  const ExportOptions& options;
  const BuildOptions& build;  // of the plan
};

// A value as the journal records it: made of any kind of value, so that a row says just the value.
// NOLINTBEGIN(google-explicit-constructor)
struct OptionText : std::string {
  OptionText(std::string text) : std::string(std::move(text)) {}
  OptionText(std::string_view text) : std::string(text) {}
  OptionText(const char* text) : std::string(text) {}
  template <class N>
  requires std::is_integral_v<N> OptionText(N number) : std::string(std::to_string(number)) {}
  template <class E>
  requires std::is_enum_v<E> OptionText(E value) : std::string(enum_name(value)) {}
};
// NOLINTEND(google-explicit-constructor)

struct OptionRow {
  std::string_view name;  // the long name, preceded by "-x," if there is a short one
  OptionScope scope;
  OptionValue value;
  std::string_view help;             // "{}" stands for the names of the built-in targets
  std::string_view needs, excludes;  // other options

  // Sets the options, which begin as the target prefers. `set` cannot fail.
  void (*set)(const Words& words, ExportOptions& options) = nullptr;
  Status (*parse)(const Words& words, ExportOptions& options) = nullptr;

  // The value for the journal. Null: the bytes of an export do not depend on it. An empty text is
  // not recorded.
  OptionText (*recorded)(const Resolved& resolved) = nullptr;
  // The file whose digest the journal holds; empty: none. Null: the option names no file.
  std::string (*file)(const ExportOptions& options) = nullptr;

  std::string_view long_name() const;
  // Whether these words say something else than `initial`.
  bool differs(const Words& words) const;
  // What is wrong with a word; empty: nothing.
  std::string wrong_word(const std::string& word) const;
  bool has_effect(const Target& target) const;
};

// All rows, in the order of --help-all.
std::span<const OptionRow* const> option_rows();

// The rows by subject, which option_rows() joins.
std::span<const OptionRow> form_options();
std::span<const OptionRow> shard_options();
std::span<const OptionRow> device_options();
std::span<const OptionRow> output_options();
std::span<const OptionRow> weight_options();
std::span<const OptionRow> pass_options();

}  // namespace moec
