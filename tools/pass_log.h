/// `--print-after` and `--time-passes`: what passes leave and how long they take, for developers.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ir/base/status.h"
#include "passes/options/pass_observer.h"

namespace rnnc::tools {

/// One per command; stays where it is while the observer is in use.
class PassLog {
 public:
  void add_options(CLI::App& command);
  bool is_wanted() const { return times_ || !print_after_.empty(); }

  /// Prints to standard error what is asked for, as it comes.
  PassObserver observer();

  /// Prints the times. An error if a pass to print after has not come.
  Status finish() const;

 private:
  struct Time {
    std::string name;
    int runs = 0;
    double seconds = 0;
  };
  void see(std::string_view name, double seconds, const Graph* graph, const Plan* plan);
  bool is_printed(std::string_view name) const;

  std::vector<std::string> print_after_;
  bool times_ = false;
  std::string printed_;     // last
  std::vector<Time> seen_;  // in order of first appearance
};

}  // namespace rnnc::tools
