/// How a plan differs from one that was explained before: `rnnc explain --against`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"

namespace rnnc::explain {

struct Explanation;
struct TrainingExplanation;

struct Comparison {
  /// What was asked for, and is other than it was.
  struct Setting {
    std::string what;
    std::string then, now;
  };
  enum class Unit : uint8_t { Seconds, Operations, Bytes, Count };
  /// Of a step, but for the workspace.
  struct Figure {
    std::string what;
    Unit unit = Unit::Seconds;
    double then = 0, now = 0;
  };
  struct Side {
    std::string id;
    std::string strategy;
    double seconds = 0;              // predicted, of a call
    std::optional<double> measured;  // likewise
  };
  /// What computes the same. Only one side: there is no other.
  struct Launches {
    std::string what;
    std::optional<Side> then, now;
  };

  std::string name;     // of what it is compared with, a file's
  std::string version;  // that wrote it
  std::vector<Setting> settings;
  std::vector<Figure> figures;
  std::vector<Launches> launches;  // that are not as they were: in their order now, then those gone
  int alike = 0;                   // launches that are
};

/// "seconds", "operations", "bytes", "count".
std::string_view name_of(Comparison::Unit unit);

/// `json` is what `rnnc explain --json` printed, `name` its file's. An error says why it cannot be
/// compared.
Status compare_with(Explanation& explanation, std::string_view name, std::string_view json);
Status compare_with(TrainingExplanation& explanation, std::string_view name, std::string_view json);

}  // namespace rnnc::explain
