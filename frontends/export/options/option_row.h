// An option of the commands that plan or make exports, as a row of a table. The rows define the
// flags and their help, the refusals for other formats, and the entries of the journal. A test
// compares them with the option table in frontends/export/README.md.
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

// Words that the user gave for one option; more than one only if the option is a list or is
// repeated.
using Words = std::vector<std::string>;

// Given options, keyed by long name ("--tokens").
using GivenOptions = std::map<std::string_view, Words>;

// flag      no value
// text      one word
// whole     one whole number from `least` to `most`
// positive  one finite number above 0
// list      several words, separated by commas or spaces
// wholes    several whole numbers
// repeated  one word per occurrence of the option
enum class OptionKind : uint8_t { flag, text, whole, positive, list, wholes, repeated };

// Commands that have an option.
enum class OptionUsers : uint8_t {
  exporting,  // export
  device,     // export, plan
  planning,   // export, plan, place
  passes      // export, plan, place, opt
};

// Formats for which an option has an effect.
enum class OptionFormats : uint8_t { all, graphs, onnx, coreml, gguf };

struct OptionValue {
  OptionKind kind = OptionKind::flag;
  std::string_view initial;    // default in --help; empty: none
  std::string_view choices;    // accepted words, separated by spaces; empty: any
  Words (*names)() = nullptr;  // accepted words of an enum, instead of `choices`
  int64_t least = 1, most = INT64_MAX;

  // Returns the accepted words; empty: any.
  Words accepted() const;
};

struct OptionScope {
  std::string_view group;  // heading in --help-all
  OptionUsers users = OptionUsers::exporting;
  OptionFormats formats = OptionFormats::all;
};

// Resolved options of an export: settings from the target, the user and the model.
struct Resolved {
  const ExportOptions& options;
  const BuildOptions& build;  // of the plan
};

// A value as the journal records it. The implicit constructors let rows return any kind of value.
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
  std::string_view help;             // "{}": placeholder for the names of the built-in targets
  std::string_view needs, excludes;  // long names of other options

  // Applies the words to `options`, which initially contain the preferences of the target. A row
  // has at most one of `set` and `parse`; `set` cannot fail.
  void (*set)(const Words& words, ExportOptions& options) = nullptr;
  Status (*parse)(const Words& words, ExportOptions& options) = nullptr;

  // Value for the journal; an empty text is not recorded. Null: the bytes of an export do not
  // depend on the option.
  OptionText (*recorded)(const Resolved& resolved) = nullptr;
  // Path of the file whose digest the journal records; empty: none. Null: the option does not name
  // a file.
  std::string (*file)(const ExportOptions& options) = nullptr;

  std::string_view long_name() const;
  // True if the words differ from `initial`.
  bool differs(const Words& words) const;
  // Returns the error in a word; empty: none.
  std::string wrong_word(const std::string& word) const;
  bool has_effect(const Target& target) const;
};

// Returns all rows, in the order of --help-all.
std::span<const OptionRow* const> option_rows();

// Rows by subject; option_rows() concatenates them.
std::span<const OptionRow> form_options();
std::span<const OptionRow> shard_options();
std::span<const OptionRow> device_options();
std::span<const OptionRow> output_options();
std::span<const OptionRow> weight_options();
std::span<const OptionRow> target_options();

}  // namespace moec
