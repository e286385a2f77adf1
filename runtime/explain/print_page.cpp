#include "runtime/explain/page.h"
#include "runtime/explain/print.h"

namespace rnnc::explain {
namespace {

constexpr std::string_view kMark = "RNNC_DATA";

/// JSON inside a script element, where "</script" and "<!--" would end or change it.
std::string escape_markup(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string page_of(std::string_view json) {
  std::string page(kPage);
  const size_t at = page.find(kMark);
  RNNC_CHECK(at != std::string::npos, "the page has no place for the data");
  return page.replace(at, kMark.size(), escape_markup(json));
}

}  // namespace

std::string explanation_page(const Explanation& explanation) {
  return page_of(explanation_json(explanation));
}

std::string explanation_page(const TrainingExplanation& explanation) {
  return page_of(explanation_json(explanation));
}

}  // namespace rnnc::explain
