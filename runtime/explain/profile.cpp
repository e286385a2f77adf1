// A launch's time in a call is that in which it ran on any thread: the union of its spans. So times of
// launches that run side by side may add up to more than the call, and what no launch's span covers
// is the call's own.
#include "runtime/explain/profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ir/base/text_writer.h"
#include "ir/plan/plan_text.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/spelling.h"

namespace rnnc::explain {
namespace {

using Interval = std::pair<double, double>;

/// Seconds that at least one of them covers.
double covered(std::vector<Interval> intervals) {
  std::ranges::sort(intervals);
  double sum = 0;
  double end = 0;
  for (const auto& [from, to] : intervals) {
    sum += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return sum;
}

template <typename Accept>
double covered_by(const LaunchTimes& times, const Accept& accept) {
  std::vector<Interval> intervals;
  for (const auto& thread : times.of_threads()) {
    for (const LaunchSpan& span : thread) {
      if (accept(span)) intervals.emplace_back(span.begin, span.end);
    }
  }
  return covered(std::move(intervals));
}

/// A row of the table: a launch, or a stage whose launches were timed together.
struct Row {
  std::string id;
  std::string what;
  double measured = 0;
  double predicted = 0;
  double floor = 0;
};

/// At most so many bytes of it; what is left out shows as "...".
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 56;
  if (text.size() <= kMost) return text;
  size_t end = kMost - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

std::vector<Row> rows_of(const Explanation& explanation) {
  std::vector<Row> rows;
  for (const StageInfo& stage : explanation.stages) {
    const bool apart = std::ranges::any_of(
        stage.launches, [](const LaunchInfo& launch) { return launch.measured.has_value(); });
    if (stage.measured && !apart) {
      rows.push_back(
          {stage.id, stage.title, *stage.measured, stage.cost.seconds, stage.cost.floor_seconds});
    }
    for (const LaunchInfo& launch : stage.launches) {
      if (!launch.measured) continue;
      const auto runs = static_cast<double>(launch.runs);
      rows.push_back({launch.id, launch.what, *launch.measured, launch.cost.seconds * runs,
                      launch.cost.floor_seconds * runs});
    }
  }
  std::ranges::stable_sort(rows, std::greater<>(), &Row::measured);
  return rows;
}

class ProfilePrinter : TextWriter {
 public:
  std::string print(const Explanation& explanation) {
    print_head(explanation);
    print_call(explanation);
    return take_text();
  }

  std::string print(const TrainingExplanation& explanation) {
    print_head(explanation.forward);
    line("\nForward half");
    print_call(explanation.forward);
    line("\nBackward half");
    print_call(explanation.backward);
    return take_text();
  }

 private:
  void print_head(const Explanation& it) {
    line("{}: {}{}, batch {}, {} steps, on {}: {} units", it.name, to_string(it.dtype),
         it.tf32 ? " (products may round to TF32)" : "", it.batch, it.steps, it.machine.name,
         it.machine.units);
  }

  void print_call(const Explanation& it) {
    const Measured& measured = it.measured.value();
    const auto steps = static_cast<double>(it.steps);
    line("{:22}{:>12}{:>12}", "", "a step", "a call");
    const auto row = [&](std::string_view title, double seconds, const std::string& more) {
      line("  {:20}{:>12}{:>12}{}", title, time_text(seconds / steps), time_text(seconds), more);
    };
    row("measured", measured.seconds, fmt::format("  median of {}", plural(measured.runs, "call")));
    row("with launches timed", measured.timed_seconds, "  one call, of which the rest tells");
    row("predicted", it.totals.cost.seconds, "");
    row("floor", it.totals.cost.floor_seconds, "");
    line("\n  {:>10}{:>7}{:>12}{:>12}  launch", "measured", "share", "predicted", "floor");
    for (const Row& launch : rows_of(it)) {
      line("  {:>10}{:>5.0f} %{:>12}{:>12}  {}  {}", time_text(launch.measured),
           100 * launch.measured / measured.timed_seconds, time_text(launch.predicted),
           time_text(launch.floor), launch.id, shortened(launch.what));
    }
    line("  {:>10}{:>5.0f} %{:>24}  between launches, the clock's own time included",
         time_text(measured.idle_seconds), 100 * measured.idle_seconds / measured.timed_seconds,
         "");
  }
};

// ---- Traces ----

using Json = nlohmann::ordered_json;

/// Microseconds, to nanoseconds.
double microseconds(double seconds) {
  return std::round(seconds * 1e9) / 1e3;
}

Json name_event(std::string_view what, int process, int thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// The launch that a span is of; null for a whole stage.
const LaunchInfo* launch_of(const StageInfo& stage, size_t index) {
  size_t next = 0;
  for (const LaunchInfo& launch : stage.launches) {
    next += launch.count;
    if (index < next) return &launch;
  }
  return nullptr;
}

struct TracedCall {
  const Explanation& explanation;
  const LaunchTimes& times;
  std::string name;
  double begin = 0;  // seconds
};

void add_events(const TracedCall& call, int process, Json& events) {
  events.push_back(name_event("process_name", process, 0, call.name));
  const auto& threads = call.times.of_threads();
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    const auto id = static_cast<int>(thread);
    events.push_back(name_event("thread_name", process, id, fmt::format("thread {}", id)));
    for (const LaunchSpan& span : threads[thread]) {
      const StageInfo& stage = call.explanation.stages.at(span.stage);
      const LaunchInfo* launch = launch_of(stage, span.launch);
      Json args = {{"stage", stage.title}, {"computes", launch == nullptr ? "" : launch->what}};
      if (span.steps > 0) args.update({{"first_step", span.first_step}, {"steps", span.steps}});
      const std::string name = launch == nullptr
                                   ? fmt::format("{} {}", stage.id, stage.title)
                                   : fmt::format("{} {}", launch->id, launch->summary);
      events.push_back({{"name", name},
                        {"cat", stage.title},
                        {"ph", "X"},
                        {"pid", process},
                        {"tid", id},
                        {"ts", microseconds(call.begin + span.begin)},
                        {"dur", microseconds(span.end - span.begin)},
                        {"args", std::move(args)}});
    }
  }
}

std::string trace_of(const std::vector<TracedCall>& calls) {
  Json events = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) add_events(calls[i], static_cast<int>(i), events);
  const Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void add_measured(Explanation& explanation, const MeasuredCall& call) {
  for (size_t i = 0; i < explanation.stages.size(); ++i) {
    StageInfo& stage = explanation.stages[i];
    if (stage.domain == Domain::Once) continue;
    stage.measured =
        covered_by(call.times, [&](const LaunchSpan& span) { return span.stage == i; });
    size_t first = 0;
    for (LaunchInfo& launch : stage.launches) {
      const size_t end = first + launch.count;
      const auto is_own = [&](const LaunchSpan& span) {
        return span.stage == i && first <= span.launch && span.launch < end;
      };
      const double seconds = covered_by(call.times, is_own);
      if (seconds > 0) launch.measured = seconds;
      first = end;
    }
  }
  const double busy = covered_by(call.times, [](const LaunchSpan&) { return true; });
  explanation.measured = {.seconds = call.seconds,
                          .runs = call.runs,
                          .timed_seconds = call.times.seconds(),
                          .idle_seconds = std::max(0.0, call.times.seconds() - busy)};
}

std::string profile_text(const Explanation& explanation) {
  return ProfilePrinter().print(explanation);
}

std::string profile_text(const TrainingExplanation& explanation) {
  return ProfilePrinter().print(explanation);
}

std::string profile_trace(const Explanation& explanation, const LaunchTimes& times) {
  return trace_of({{explanation, times, explanation.name}});
}

std::string profile_trace(const TrainingExplanation& explanation, const LaunchTimes& forward,
                          const LaunchTimes& backward) {
  const std::string& name = explanation.forward.name;
  return trace_of(
      {{explanation.forward, forward, fmt::format("{}, forward", name)},
       {explanation.backward, backward, fmt::format("{}, backward", name), forward.seconds()}});
}

}  // namespace rnnc::explain
