/// What printers and emitters of text derive from.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace rnnc {

class TextWriter {
 protected:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    part(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  /// Of a line that goes on.
  template <typename... Args>
  void part(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  std::string take_text() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

}  // namespace rnnc
