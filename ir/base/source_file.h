/// The user's text, and places in it as people name them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/source_location.h"

namespace rnnc {

/// Line and column count from 1; columns count characters (UTF-8 code points), not bytes.
struct LineColumn {
  uint32_t line = 1;
  uint32_t column = 1;
};

class SourceFile {
 public:
  SourceFile(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }
  LineColumn position(uint32_t offset) const;
  /// The line around `offset`, without its line end.
  std::string_view line_at(uint32_t offset) const;
  std::string_view slice(SourceLocation location) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<uint32_t> line_starts_;
};

}  // namespace rnnc
