/// What `rnnc explain` knows of a plan, before it is text, JSON or a page (print.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan/launches/launch_words.h"
#include "passes/build_plan.h"
#include "passes/cost/cost.h"
#include "passes/options/machine.h"
#include "runtime/explain/comparison.h"
#include "runtime/explain/graph_picture.h"
#include "runtime/explain/memory_map.h"
#include "runtime/explain/text_names.h"
#include "runtime/explain/waves.h"

namespace rnnc::explain {

/// What most of a launch's predicted time is spent on.
enum class Bound : uint8_t { Arithmetic, Memory, Latency };

struct LaunchInfo : LaunchWords {
  std::string id = {};  // "3.1": the first launch of stage 3; "3.1-4" the first four
  std::vector<std::string> reads = {};  // as `writes`: buffers, by name
  std::vector<std::string> lines = {};  // of the text that it computes: "lstm.rnn:15"
  int count = 1;                        // copies that stack one array are taken together
  int64_t runs = 0;                     // per call
  Cost cost = {};                       // of one run
  Bound bound = Bound::Latency;
  std::optional<double> measured = {};  // seconds of a call in which it ran, if that was measured
};

struct StageInfo {
  std::string id;     // "3", from 1 on in order of execution
  std::string title;  // of a recurrence: its states
  Domain domain = Domain::Once;
  RecurrenceClass recurrence = RecurrenceClass::None;
  std::string reason;  // why it is where it is, and of its class
  int phases = 0;
  uint32_t sweep = 0;
  uint32_t lag = 0;
  std::vector<LaunchInfo> launches;
  Cost cost;                       // of its launches, run once each
  std::optional<double> measured;  // as LaunchInfo's: in which any of them ran
};

/// Of one call, without what Once stages do.
struct Totals {
  Cost cost;
  double launches = 0;
};

/// Seconds of a call that was run (profile.h).
struct Measured {
  double seconds = 0;  // the median of `runs` calls
  int runs = 0;
  double timed_seconds = 0;  // of one whose launches were timed, which takes somewhat longer
  double idle_seconds = 0;   // of that one, in which none of them ran
};

/// A file of the text.
struct SourceText {
  std::string name;
  std::string text;
};

struct Array {
  std::string kind;  // "input", "param", "state", "output", "result"
  std::string name;
  Shape shape;
};

struct Explanation {
  std::string name;
  std::vector<std::string> notes;   // what is not as asked for, and why
  std::vector<SourceText> sources;  // none of a graph that was made of no text
  std::vector<Array> arrays;
  int64_t param_elements = 0;
  DType dtype = DType::f32;
  bool tf32 = false;
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t chunk = 0;
  PassSet passes = PassSet::all();
  Machine machine;
  double product_rate = 0;      // FLOP per second of products
  double elementwise_rate = 0;  // and of everything else
  GraphPicture before;          // the step Graph as the cell says it
  GraphPicture simplified;      // and as it is planned
  GraphPicture after;           // the launches
  std::vector<StageInfo> stages;
  Totals totals;
  Cost once;                    // of all Once stages
  std::optional<Totals> naive;  // of the plan that no pass has touched; none if this is it
  MemoryMap memory;
  Waves waves;
  std::optional<Measured> measured;  // of the call without what Once stages do
  std::optional<Comparison> against;
};

/// Plans `graph`, which is bound and verified, and explains calls of so many steps. `saved`: it is a
/// half of a derivative, which has been through the passes over graphs and has these values in
/// common with the other half. An error is one of `build_plan`.
Result<Explanation> explain_plan(const Graph& graph, const PlanOptions& options, int64_t steps,
                                 const SavedNames* saved = nullptr);

std::string_view name_of(Bound bound);

}  // namespace rnnc::explain
