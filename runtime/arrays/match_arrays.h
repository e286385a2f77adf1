/// Named arrays against what a program expects: what is missing, unknown or of a wrong shape.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/arrays/array.h"

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

/// What of the given arrays is looked at. Shapes alone: their data need not be there.
enum class Compared : uint8_t { shapes, shapes_and_data };

/// `kind` is "param" and the like, `owner` the cell's or network's name. One axis more, of size 1
/// at the end, changes nothing: a scalar may be of shape [1].
ArrayMatch match_arrays(std::string_view kind, std::string_view owner,
                        const std::vector<ExpectedArray>& expected,
                        std::span<const NamedArray> given, bool all_required,
                        Compared compared = Compared::shapes_and_data);

/// The sizes of an array that should have `rank` axes: without one of size 1 at the end. Nothing if
/// it has more or fewer.
std::optional<std::span<const int64_t>> sizes_of_rank(const std::vector<int64_t>& shape,
                                                      size_t rank);

/// As many problems as are worth listing, and hints as are worth looking for.
constexpr size_t kMostProblems = 40;

/// A line each, of the first.
std::string join_problems(const std::vector<std::string>& problems);
/// One error for a list of problems: a line if there is one, else a line each.
std::string list_problems(std::string_view owner, const std::vector<std::string>& problems);

}  // namespace rnnc
