/// Names and shapes in error texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rnnc {

/// The text between backquotes, safe on a terminal (`utf8::printable`); long texts are cut.
std::string quote(std::string_view text);

/// " (did you mean `W_i`?)" of the candidate that is near enough to `name`; "" if none is.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// "[4, 3]", "[]".
std::string shape_text(const std::vector<int64_t>& shape);

/// The product of a shape's sizes. Nothing if a size is negative or the product of the sizes that
/// are not 0 passes 2^62.
std::optional<int64_t> count_elements(const std::vector<int64_t>& shape);

}  // namespace rnnc
