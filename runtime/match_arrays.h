/// Named arrays against what a program expects: what is missing, unknown or of a wrong shape.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/array.h"

namespace rnnc {

struct ExpectedArray {
  std::string name;
  std::vector<std::optional<int64_t>> shape;  // no value: any size
  std::string shape_text;                     // for errors: "[T, B, 3]", "[H, I] = [4, 3]"
};

/// Lists what is wrong, one text per array, and matches the rest by name.
struct ArrayMatch {
  std::vector<const Array*> arrays;        // one per expected array; null: missing or wrong
  std::vector<std::string> name_problems;  // missing (only if `all_required`), unknown, given twice
  std::vector<std::string> shape_problems;
  std::vector<size_t> misshapen;  // indices of the expected arrays that `shape_problems` are about
};

/// `kind` is "param" and the like, `owner` the cell's or network's name.
ArrayMatch match_arrays(std::string_view kind, std::string_view owner,
                        const std::vector<ExpectedArray>& expected,
                        std::span<const NamedArray> given, bool all_required);

/// One error for a list of problems: a line if there is one, else a line each.
std::string list_problems(std::string_view owner, const std::vector<std::string>& problems);

}  // namespace rnnc
