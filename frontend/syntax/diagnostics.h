/// Errors and warnings about the user's text: the product's face.
///
///     lstm.rnn:7:24: error: `W_i @ h[t-1]` does not fit: W_i is [H, I], h is [H]
///       i = sigmoid(W_i @ h[t-1] + b_i)
///                   ^~~~~~~~~~~~
///       hint: the product needs a vector of size I (= 3)
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/syntax/source.h"
#include "ir/base/source_location.h"

namespace rnnc {

enum class Severity : uint8_t { Error, Warning };

/// A change of the source: `text` in place of what stands at `location`.
struct Edit {
  SourceLocation location;
  std::string text;
};

/// How to mend what a diagnostic is about, and, where that is mechanical, the edits that do it.
struct Hint {
  std::string text;
  std::vector<Edit> edits;

  Hint() = default;
  // Most hints are words alone.
  Hint(std::string words) : text(std::move(words)) {}  // NOLINT(google-explicit-constructor)
  Hint(const char* words) : text(words) {}             // NOLINT(google-explicit-constructor)
  Hint(std::string words, std::vector<Edit> changes)
      : text(std::move(words)), edits(std::move(changes)) {}
  bool empty() const { return text.empty(); }
};

struct Diagnostic {
  /// A second place that matters, such as an earlier declaration.
  struct Note {
    SourceLocation location;
    std::string message;
  };
  Severity severity = Severity::Error;
  SourceLocation location;
  std::string message;  // what was expected and what was found; no capital, no full stop
  Hint hint;            // may be empty
  std::vector<Note> notes;
};

/// Collects diagnostics of one compilation. Drops exact repeats; keeps the first 20 errors
/// and the first 20 warnings.
class Diagnostics {
 public:
  void report(Diagnostic diagnostic);
  void error(SourceLocation location, std::string message, Hint hint = {});
  void warning(SourceLocation location, std::string message, Hint hint = {});

  bool has_errors() const { return error_count_ > 0; }
  /// Whether more errors were reported than are kept: looking for others is no use.
  bool is_full() const;
  const std::vector<Diagnostic>& all() const { return all_; }
  /// Those kept, by place.
  std::vector<Diagnostic> sorted() const;

  struct Style {
    bool warnings = true;  // else errors alone
    bool colour = false;   // with ANSI escape sequences
  };
  /// Sorted by place, each with source line, caret and hint. But for the colours' there are no
  /// control characters in it, whatever the source has.
  std::string render(const std::vector<SourceFile>& files, Style style) const;
  std::string render(const std::vector<SourceFile>& files) const { return render(files, Style()); }

 private:
  std::vector<Diagnostic> all_;
  size_t error_count_ = 0;
  size_t warning_count_ = 0;
};

/// The candidate nearest to `name` by edit distance, if near enough to be a likely typo.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace rnnc
