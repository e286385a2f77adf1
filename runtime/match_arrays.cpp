#include "runtime/match_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/diagnostics.h"
#include "runtime/describe.h"

namespace rnnc {
namespace {

bool fits(const std::vector<int64_t>& shape, const std::vector<std::optional<int64_t>>& expected) {
  return std::ranges::equal(shape, expected,
                            [](int64_t size, const std::optional<int64_t>& wanted) {
                              return !wanted || size == *wanted;
                            });
}

}  // namespace

ArrayMatch match_arrays(std::string_view kind, std::string_view owner,
                        const std::vector<ExpectedArray>& expected,
                        std::span<const NamedArray> given, bool all_required) {
  ArrayMatch match;
  match.arrays.resize(expected.size());
  std::vector<bool> seen(expected.size(), false);
  std::vector<const NamedArray*> unknown;
  for (const NamedArray& named : given) {
    const auto found = std::ranges::find(expected, named.name, &ExpectedArray::name);
    if (found == expected.end()) {
      unknown.push_back(&named);
      continue;
    }
    const auto index = static_cast<size_t>(found - expected.begin());
    if (seen[index]) {
      match.name_problems.push_back(fmt::format("{} {} is given twice", kind, quote(named.name)));
    } else if (!fits(named.array.shape, found->shape)) {
      match.shape_problems.push_back(fmt::format("{} {} is {}, expected {}", kind,
                                                 quote(named.name), shape_text(named.array.shape),
                                                 found->shape_text));
      match.misshapen.push_back(index);
    } else if (const Status whole = named.array.check(); !whole) {
      match.shape_problems.push_back(
          fmt::format("{} {} {}", kind, quote(named.name), whole.error().message));
    } else {
      match.arrays[index] = &named.array;
    }
    seen[index] = true;
  }

  std::vector<std::string> missing;
  std::vector<std::string> all;
  for (size_t i = 0; i < expected.size(); ++i) {
    all.push_back(expected[i].name);
    if (seen[i]) continue;
    missing.push_back(expected[i].name);
    if (all_required) {
      match.name_problems.push_back(fmt::format("{} {} {} is missing", kind,
                                                quote(expected[i].name), expected[i].shape_text));
    }
  }
  for (const NamedArray* named : unknown) {
    // What is missing is what was most likely meant.
    std::string nearest = nearest_name(named->name, missing);
    if (nearest.empty()) nearest = nearest_name(named->name, all);
    if (nearest.empty() && missing.size() == 1 && unknown.size() == 1) nearest = missing.front();
    const std::string hint = nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest);
    match.name_problems.push_back(fmt::format("{} {} {} is not in {}{}", kind, quote(named->name),
                                              shape_text(named->array.shape), quote(owner), hint));
  }
  return match;
}

std::string list_problems(std::string_view owner, const std::vector<std::string>& problems) {
  if (problems.size() == 1) return problems.front();
  return fmt::format("the arrays do not fit {}:\n  {}", quote(owner), fmt::join(problems, "\n  "));
}

}  // namespace rnnc
