#include "tools/explain/page.h"
#include "tools/explain/print.h"

namespace rnnc::tools {
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

}  // namespace

std::string explanation_page(const Explanation& explanation) {
  std::string page(kPage);
  const size_t at = page.find(kMark);
  RNNC_CHECK(at != std::string::npos, "the page has no place for the data");
  return page.replace(at, kMark.size(), escape_markup(explanation_json(explanation)));
}

}  // namespace rnnc::tools
