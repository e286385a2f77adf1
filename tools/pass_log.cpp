#include "tools/pass_log.h"

#include <algorithm>
#include <cstdio>

#include "ir/graph/text.h"
#include "runtime/base/describe.h"

namespace rnnc::tools {

void PassLog::add_options(CLI::App& command) {
  command
      .add_option("--print-after", print_after_,
                  "Print the graph or plan after these passes, with commas between, or after all; "
                  "`schedule` is where those from hoist to loop have their say")
      ->type_name("PASS")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--time-passes", times_, "Print how long each pass takes");
}

PassObserver PassLog::observer() {
  if (!is_wanted()) return {};
  return {[this](std::string_view name, double seconds, const Graph* graph, const Plan* plan) {
    see(name, seconds, graph, plan);
  }};
}

void PassLog::see(std::string_view name, double seconds, const Graph* graph, const Plan* plan) {
  auto time = std::ranges::find(seen_, name, &Time::name);
  if (time == seen_.end()) time = seen_.insert(seen_.end(), {.name = std::string(name)});
  ++time->runs;
  time->seconds += seconds;
  if (!is_printed(name)) return;
  std::string text = graph != nullptr ? to_string(*graph) : to_string(*plan);
  fmt::print(stderr, "after {}:{}\n", name, text == printed_ ? " nothing new" : "\n" + text);
  printed_ = std::move(text);
}

bool PassLog::is_printed(std::string_view name) const {
  return std::ranges::any_of(
      print_after_, [&](const std::string& wanted) { return wanted == name || wanted == "all"; });
}

Status PassLog::finish() const {
  if (times_) {
    double seconds = 0;
    for (const Time& time : seen_) {
      fmt::print(stderr, "{:14}{:4} runs{:12.1f} us\n", time.name, time.runs, time.seconds * 1e6);
      seconds += time.seconds;
    }
    fmt::print(stderr, "{:14}{:21.1f} us\n", "total", seconds * 1e6);
  }
  for (const std::string& wanted : print_after_) {
    if (wanted == "all" || std::ranges::find(seen_, wanted, &Time::name) != seen_.end()) continue;
    std::string names;
    for (const Time& time : seen_) names += (names.empty() ? "" : ", ") + time.name;
    return fail("--print-after {}: no such pass ran; these did: {}", quote(wanted), names);
  }
  return {};
}

}  // namespace rnnc::tools
