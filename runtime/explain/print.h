/// An Explanation, of a plan or of training, for people and programs.
#pragma once

#include <string>

#include "runtime/explain/training_explanation.h"

namespace rnnc::explain {

/// For a terminal, lines of at most about so many characters where names allow.
inline constexpr size_t kTextWidth = 100;
std::string explanation_text(const Explanation& explanation);
std::string explanation_text(const TrainingExplanation& explanation);

/// What differs, likewise.
std::string comparison_text(const Comparison& comparison);

/// One object; docs/explain.md lists its keys.
std::string explanation_json(const Explanation& explanation);
std::string explanation_json(const TrainingExplanation& explanation);

/// One self-contained page: the JSON, and the style and scripts of page/ that draw it.
std::string explanation_page(const Explanation& explanation);
std::string explanation_page(const TrainingExplanation& explanation);

enum class Format : uint8_t { Text, Json, Page };

template <typename Explained>
std::string print(const Explained& explanation, Format format) {
  switch (format) {
    case Format::Text:
      return explanation_text(explanation);
    case Format::Json:
      return explanation_json(explanation);
    case Format::Page:
      break;
  }
  return explanation_page(explanation);
}

}  // namespace rnnc::explain
