#include <algorithm>

#include "ir/base/text_writer.h"
#include "ir/plan/plan_text.h"
#include "runtime/explain/describe_launch.h"
#include "runtime/explain/print.h"
#include "runtime/explain/spelling.h"

namespace rnnc::explain {
namespace {

std::string cost_text(const Cost& cost) {
  return fmt::format("{}, {}; {} predicted, {} floor", flop_text(cost.flops),
                     bytes_text(cost.bytes), time_text(cost.seconds),
                     time_text(cost.floor_seconds));
}

std::string per_domain(Domain domain) {
  switch (domain) {
    case Domain::Once:
    case Domain::Last:
      return "per call";
    case Domain::Sequence:
      return "per chunk";
    case Domain::Step:
      break;
  }
  return "per step";
}

class TextPrinter : TextWriter {
 public:
  explicit TextPrinter(const Explanation& explanation) : it_(explanation) {}

  std::string print() {
    print_head();
    print_totals();
    for (const StageInfo& stage : it_.stages) print_stage(stage);
    print_waves();
    print_memory();
    if (it_.against) part("\n{}", comparison_text(*it_.against));
    return take_text();
  }

 private:
  void print_head() {
    line("{}: {}{}, batch {}, {} steps in chunks of {}, passes {}", it_.name, to_string(it_.dtype),
         it_.tf32 ? " (products may round to TF32)" : "", it_.batch, it_.steps, it_.chunk,
         it_.passes.to_string());
    const Machine& machine = it_.machine;
    line("on {}: {} units, {}/s in products, {} memory, {} cache, {} a launch, {} a wave",
         machine.name, machine.units, flop_text(it_.product_rate),
         rate_text(machine.memory_bandwidth), rate_text(machine.cache_bandwidth),
         time_text(machine.launch_seconds), time_text(machine.wave_seconds));
    print_arrays("input", "inputs");
    print_params();
    print_arrays("state", "states");
    print_arrays("output", "outputs");
    print_arrays("result", "results");
  }

  void print_arrays(std::string_view kind, std::string_view title) {
    std::string list;
    for (const Array& array : it_.arrays) {
      if (array.kind != kind) continue;
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", array.name, to_string(array.shape));
    }
    if (!list.empty()) line("  {:8}{}", title, list);
  }

  void print_params() {
    const auto count = std::ranges::count(it_.arrays, "param", &Array::kind);
    if (count > 0) {
      line("  {:8}{}, {} elements", "params", plural(count, "array"),
           count_text(static_cast<double>(it_.param_elements)));
    }
  }

  void print_totals() {
    const Totals& totals = it_.totals;
    const auto steps = static_cast<double>(it_.steps);
    line("\n{:20}{:>14}{:>14}", it_.measured ? "Predicted, measured" : "Predicted", "a step",
         fmt::format("{} steps", it_.steps));
    const auto row = [&](std::string_view title, double value, auto spelling) {
      line("  {:18}{:>14}{:>14}", title, spelling(value / steps), spelling(value));
    };
    if (it_.measured) row("measured time", it_.measured->seconds, time_text);
    row("time", totals.cost.seconds, time_text);
    row("floor", totals.cost.floor_seconds, time_text);
    row("FLOP", totals.cost.flops, count_text);
    row("bytes", totals.cost.bytes, bytes_text);
    row("launches", totals.launches, count_text);
    if (it_.naive) {
      line("  without passes: {} and {} launches a step, {:.1f} times as long",
           time_text(it_.naive->cost.seconds / steps), count_text(it_.naive->launches / steps),
           it_.naive->cost.seconds / totals.cost.seconds);
    }
    if (it_.once.seconds > 0) line("  once a call, beforehand: {}", time_text(it_.once.seconds));
    using Kind = GraphPicture::Kind;
    const GraphPicture& graph = it_.before;
    line("  the step graph: {}, {}, {}", plural(graph.count(Kind::Product), "product"),
         plural(graph.count(Kind::Elementwise), "elementwise operation"),
         plural(graph.count(Kind::Reduction), "reduction"));
  }

  void print_stage(const StageInfo& stage) {
    std::string facts;
    if (stage.recurrence != RecurrenceClass::None) {
      facts += fmt::format(", {}", spelling(stage.recurrence));
    }
    if (stage.phases > 0) {
      facts += ", " + plural(stage.phases, "phase");
    }
    if (stage.sweep > 0) facts += fmt::format(", sweep {}", stage.sweep);
    if (stage.lag > 0) facts += fmt::format(", lag {}", stage.lag);
    line("\nStage {}: {}{} ({})", stage.id, stage.title, facts, spelling(stage.domain));
    line("  {}", stage.reason);
    for (const LaunchInfo& launch : stage.launches) print_launch(stage, launch);
    const bool apart = std::ranges::any_of(
        stage.launches, [](const LaunchInfo& launch) { return launch.measured.has_value(); });
    if (stage.measured && !apart) {
      print_measured(*stage.measured, stage.cost, stage.launches.front().runs);
    }
  }

  /// Of a launch, or of a stage whose launches were timed together.
  void print_measured(double seconds, const Cost& cost, int64_t runs) {
    const double predicted = cost.seconds * static_cast<double>(runs);
    line("      measured {} a call, {:.1f} times the predicted {}", time_text(seconds),
         seconds / predicted, time_text(predicted));
  }

  void print_launch(const StageInfo& stage, const LaunchInfo& launch) {
    line("  {}  {}", launch.id, launch.what);
    line("      {}", launch.strategy);
    line("      {} {}; {} bound", cost_text(launch.cost), per_domain(stage.domain),
         name_of(launch.bound));
    if (launch.measured) print_measured(*launch.measured, launch.cost, launch.runs);
    if (!launch.operations.empty()) {
      std::vector<std::string> operations;
      for (const auto& [name, count] : launch.operations) {
        operations.push_back(count == 1 ? name : fmt::format("{} {}", count, name));
      }
      line("      {}", fmt::join(operations, ", "));
    }
    for (const LaunchInfo::Note& note : launch.notes) line("      {}: {}", note.kind, note.text);
  }

  void print_waves() {
    line("\nWaves: {} of {}, {}", plural(it_.waves.chunks, "chunk"), plural(it_.chunk, "step"),
         plural(it_.waves.total, "wave"));
    if (it_.waves.lags > 0) {
      line("  stages of {} lags side by side, the last {} behind the first", it_.waves.lags + 1,
           plural(it_.waves.lags, "chunk"));
    }
  }

  void print_memory() {
    const MemoryMap& memory = it_.memory;
    line("\nMemory");
    const auto row = [&](std::string_view title, int64_t bytes, std::string_view more) {
      line("  {:18}{:>12}  {}", title, bytes_text(static_cast<double>(bytes)), more);
    };
    row("workspace", memory.workspace_bytes,
        memory.workspace_bytes_per_step == 0
            ? ""
            : fmt::format("of it {} for each step",
                          bytes_text(static_cast<double>(memory.workspace_bytes_per_step))));
    row("  in use at once", memory.live_bytes, "the most; what does not grow with the steps");
    row("  without reuse", memory.fixed_bytes_without_reuse, "likewise");
    row("program", memory.program_bytes, "the program's own: stacked weights, states");
    row("arrays", memory.caller_bytes, "the caller's");
  }

  const Explanation& it_;
};

}  // namespace

std::string explanation_text(const Explanation& explanation) {
  return TextPrinter(explanation).print();
}

}  // namespace rnnc::explain
