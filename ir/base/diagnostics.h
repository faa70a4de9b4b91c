// Diagnostics for the user: severity, a stable code, place, cause and next step. A function that
// can fail because of its input returns Result<T> or Status. Exceptions do not propagate from one
// folder to another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "ir/base/enum_table.h"

namespace moec {

enum class Severity { note, warning, error };
constexpr auto enum_names(Severity) { return name_table<Severity>({"note", "warning", "error"}); }
constexpr std::string_view severity_name(Severity severity) { return enum_name(severity); }

// The place of a finding. Any part may be empty; render() prints the parts that are set.
struct Place {
  std::string shard;               // "L03.moe"
  std::string op;                  // a value or op name inside the shard
  std::string tensor;              // a checkpoint tensor
  std::string file;                // the path as the user wrote it
  std::optional<uint64_t> offset;  // in bytes from the start of `file`
  std::optional<uint32_t> line;    // 1-based, in `file`
  std::optional<uint32_t> column;  // 1-based

  bool operator==(const Place&) const = default;
};

struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;       // stable, for tests and for --json: "safetensors.truncated", "conv.c3"
  std::string cause;      // one sentence, no final newline
  std::string next_step;  // what the user can do; may be empty if the cause already implies it
  Place place;

  bool operator==(const Diagnostic&) const = default;
};

using Diagnostics = std::vector<Diagnostic>;

template <class T>
using Result = tl::expected<T, Diagnostics>;
using Status = Result<void>;

// "error[code] file:3:7: cause\n  next: next_step"
std::string render(const Diagnostic& diagnostic);
std::string render(const Diagnostics& diagnostics);

bool has_error(const Diagnostics& diagnostics);

// Makes a failed result with one error: return fail("hf.missing_key", "…", "…", {.file = path});
inline tl::unexpected<Diagnostics> fail(std::string code, std::string cause,
                                        std::string next_step = {}, Place place = {}) {
  return tl::unexpected<Diagnostics>(Diagnostics{Diagnostic{
      Severity::error, std::move(code), std::move(cause), std::move(next_step), std::move(place)}});
}

inline tl::unexpected<Diagnostics> fail(Diagnostics diagnostics) {
  return tl::unexpected<Diagnostics>(std::move(diagnostics));
}

// Adds the file to the diagnostics that name none, because inner readers do not know it.
template <class T>
Result<T> with_file(Result<T> result, const std::string& path) {
  if (!result)
    for (Diagnostic& finding : result.error())
      if (finding.place.file.empty()) finding.place.file = path;
  return result;
}

#define MOEC_CONCAT_INNER(a, b) a##b
#define MOEC_CONCAT(a, b) MOEC_CONCAT_INNER(a, b)

// Evaluates a Result or Status; on failure returns its diagnostics from the calling function.
#define MOEC_TRY(expression)                                                      \
  do {                                                                            \
    if (auto moec_status = (expression); !moec_status)                            \
      return tl::unexpected<::moec::Diagnostics>(std::move(moec_status.error())); \
  } while (false)

// MOEC_ASSIGN(auto table, read_table(path)); assigns the value, or returns the diagnostics as
// MOEC_TRY does.
#define MOEC_ASSIGN(declaration, expression) \
  MOEC_ASSIGN_INNER(MOEC_CONCAT(moec_result_, __LINE__), declaration, expression)
#define MOEC_ASSIGN_INNER(result, declaration, expression)                            \
  auto result = (expression);                                                         \
  if (!result) return tl::unexpected<::moec::Diagnostics>(std::move(result.error())); \
  declaration = std::move(*result)

}  // namespace moec
