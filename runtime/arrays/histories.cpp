#include "runtime/arrays/histories.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace rnnc {
namespace {

constexpr std::string_view kHistory = "@history";

/// A state that is a history, and where it ends.
struct History {
  const ArrayInfo& info;
  std::string of;                    // "h"
  std::optional<std::string> state;  // what has the newest value: "h", "u@1"; of an input nothing

  int64_t entries() const { return info.shape[0]; }
  /// "h@13", …, "h@2"; of an input to "x@1".
  std::vector<std::string> steps() const {
    std::vector<std::string> names;
    const int64_t last = state ? 2 : 1;
    for (int64_t step = last + entries() - 1; step >= last; --step) {
      names.push_back(fmt::format("{}@{}", of, step));
    }
    return names;
  }
};

std::vector<History> find_histories(const std::vector<ArrayInfo>& states) {
  std::vector<History> histories;
  for (const ArrayInfo& info : states) {
    if (!info.name.ends_with(kHistory)) continue;
    History history = {info, info.name.substr(0, info.name.size() - kHistory.size()), {}};
    for (const std::string& name : {history.of, history.of + "@1"}) {
      if (std::ranges::find(states, name, &ArrayInfo::name) != states.end()) history.state = name;
    }
    histories.push_back(std::move(history));
  }
  return histories;
}

const NamedArray* find(const std::vector<NamedArray>& given, std::string_view name) {
  const auto found = std::ranges::find(given, name, &NamedArray::name);
  return found == given.end() ? nullptr : &*found;
}

/// [B, steps, ...] of arrays [B, ...] that are alike.
Array stack(const std::vector<const Array*>& steps) {
  Array result = {.dtype = steps[0]->dtype, .shape = steps[0]->shape, .data = {}};
  result.shape.insert(result.shape.begin() + 1, std::ssize(steps));
  const auto rows = static_cast<size_t>(result.shape[0]);
  const size_t bytes = rows == 0 ? 0 : steps[0]->data.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    for (const Array* step : steps) {
      const auto begin = step->data.begin() + static_cast<ptrdiff_t>(row * bytes);
      result.data.insert(result.data.end(), begin, begin + static_cast<ptrdiff_t>(bytes));
    }
  }
  return result;
}

}  // namespace

std::vector<NamedArray> join_histories(const std::vector<ArrayInfo>& states,
                                       std::vector<NamedArray> given) {
  for (const History& history : find_histories(states)) {
    std::vector<const Array*> steps;
    for (const std::string& name : history.steps()) {
      if (const NamedArray* step = find(given, name)) steps.push_back(&step->array);
    }
    const auto alike = [&](const Array* step) {
      return step->dtype == steps[0]->dtype && step->shape == steps[0]->shape &&
             step->data.size() == steps[0]->data.size();
    };
    const bool whole = std::ssize(steps) == history.entries() && !steps[0]->shape.empty() &&
                       std::ranges::all_of(steps, alike);
    if (!whole) continue;
    Array joined = stack(steps);
    std::erase_if(given, [names = history.steps()](const NamedArray& array) {
      return std::ranges::find(names, array.name) != names.end();
    });
    given.push_back({history.info.name, std::move(joined)});
  }
  return given;
}

std::vector<NamedArray> fill_histories(const std::vector<ArrayInfo>& states,
                                       std::vector<NamedArray> given) {
  for (const History& history : find_histories(states)) {
    if (!history.state || find(given, history.info.name) != nullptr) continue;
    const NamedArray* newest = find(given, *history.state);
    if (newest == nullptr || newest->array.shape.empty()) continue;
    const std::vector<const Array*> steps(static_cast<size_t>(history.entries()), &newest->array);
    given.push_back({history.info.name, stack(steps)});
  }
  return given;
}

}  // namespace rnnc
