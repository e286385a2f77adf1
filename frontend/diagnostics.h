/// Errors and warnings about the user's text: the product's face.
///
///     lstm.rnn:7:24: error: `W_i @ h[t-1]` does not fit: W_i is [H, I], h is [H]
///       i = sigmoid(W_i @ h[t-1] + b_i)
///                   ^~~~~~~~~~~~
///       hint: the product needs a vector of size I (= 3)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/source.h"
#include "ir/source_location.h"

namespace rnnc {

enum class Severity : uint8_t { Error, Warning };

struct Diagnostic {
  /// A second place that matters, such as an earlier declaration.
  struct Note {
    SourceLocation location;
    std::string message;
  };
  Severity severity = Severity::Error;
  SourceLocation location;
  std::string message;  // what was expected and what was found; no capital, no full stop
  std::string hint;     // how to fix it; may be empty
  std::vector<Note> notes;
};

/// Collects diagnostics of one compilation. Drops exact repeats; keeps the first 20 errors
/// and the first 20 warnings.
class Diagnostics {
 public:
  void report(Diagnostic diagnostic);
  void error(SourceLocation location, std::string message, std::string hint = {});
  void warning(SourceLocation location, std::string message, std::string hint = {});

  bool has_errors() const { return error_count_ > 0; }
  const std::vector<Diagnostic>& all() const { return all_; }
  /// Sorted by place, rendered with source line, caret and hint; if so wished, errors alone.
  std::string render(const std::vector<SourceFile>& files, bool warnings = true) const;

 private:
  std::vector<Diagnostic> all_;
  size_t error_count_ = 0;
  size_t warning_count_ = 0;
};

/// The candidate nearest to `name` by edit distance, if near enough to be a likely typo.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace rnnc
