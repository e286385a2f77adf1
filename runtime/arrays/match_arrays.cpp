#include "runtime/arrays/match_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/syntax/diagnostics.h"
#include "runtime/base/describe.h"

namespace rnnc {
namespace {

bool fits(std::span<const int64_t> sizes, std::span<const std::optional<int64_t>> expected) {
  return std::ranges::equal(sizes, expected,
                            [](int64_t size, const std::optional<int64_t>& wanted) {
                              return !wanted || size == *wanted;
                            });
}

/// Whether it would fit with its last two axes exchanged.
bool is_transposed(std::span<const int64_t> sizes,
                   std::span<const std::optional<int64_t>> expected) {
  std::vector<int64_t> exchanged(sizes.begin(), sizes.end());
  if (exchanged.size() < 2) return false;
  std::swap(exchanged.back(), exchanged[exchanged.size() - 2]);
  return fits(exchanged, expected);
}

std::string misfit(std::string_view kind, const NamedArray& given, const ExpectedArray& expected) {
  const auto sizes = sizes_of_rank(given.array.shape, expected.shape.size());
  const bool transposed = kind == "param" && sizes && is_transposed(*sizes, expected.shape);
  return fmt::format("{} {} is {}, expected {}{}", kind, quote(given.name),
                     shape_text(given.array.shape), expected.shape_text,
                     transposed ? ": it looks transposed" : "");
}

}  // namespace

std::optional<std::span<const int64_t>> sizes_of_rank(const std::vector<int64_t>& shape,
                                                      size_t rank) {
  const bool one_more = shape.size() == rank + 1 && shape.back() == 1;
  if (shape.size() != rank && !one_more) return std::nullopt;
  return std::span(shape).first(rank);
}

ArrayMatch match_arrays(std::string_view kind, std::string_view owner,
                        const std::vector<ExpectedArray>& expected,
                        std::span<const NamedArray> given, bool all_required, Compared compared) {
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
    const auto sizes = sizes_of_rank(named.array.shape, found->shape.size());
    if (seen[index]) {
      match.name_problems.push_back(fmt::format("{} {} is given twice", kind, quote(named.name)));
    } else if (!sizes || !fits(*sizes, found->shape)) {
      match.shape_problems.push_back(misfit(kind, named, *found));
      match.misshapen.push_back(index);
    } else if (const Status whole = compared == Compared::shapes ? Status() : named.array.check();
               !whole) {
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
    std::string nearest;
    if (match.name_problems.size() < kMostProblems) {
      // What is missing is what was most likely meant.
      nearest = nearest_name(named->name, missing);
      if (nearest.empty()) nearest = nearest_name(named->name, all);
      if (nearest.empty() && missing.size() == 1 && unknown.size() == 1) nearest = missing.front();
    }
    const std::string hint = nearest.empty() ? "" : fmt::format(" (did you mean `{}`?)", nearest);
    match.name_problems.push_back(fmt::format("{} {} {} is not in {}{}", kind, quote(named->name),
                                              shape_text(named->array.shape), quote(owner), hint));
  }
  return match;
}

std::string join_problems(const std::vector<std::string>& problems) {
  const auto shown = std::span(problems).first(std::min(problems.size(), kMostProblems));
  const size_t rest = problems.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, "\n  "),
                     rest == 0 ? "" : fmt::format("\n  and {} more", rest));
}

std::string list_problems(std::string_view owner, const std::vector<std::string>& problems) {
  if (problems.size() == 1) return problems.front();
  return fmt::format("the arrays do not fit {}:\n  {}", quote(owner), join_problems(problems));
}

}  // namespace rnnc
