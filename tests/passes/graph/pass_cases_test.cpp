/// Text in, text out: the cases of tests/passes/cases/*.txt (tests/passes/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "ir/plan/direct_states.h"
#include "ir/plan/plan_parse.h"
#include "passes/graph/common_subexpressions.h"
#include "passes/graph/constant_folding.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/delays.h"
#include "passes/graph/distribute_products.h"
#include "passes/graph/dot_products.h"
#include "passes/graph/histories.h"
#include "passes/graph/identities.h"
#include "passes/graph/pipeline.h"
#include "passes/graph/sequence_features.h"
#include "passes/graph/structure.h"
#include "passes/memory/memory.h"
#include "passes/persistent/absorb_products.h"
#include "passes/persistent/resident.h"
#include "passes/persistent/round_states.h"
#include "passes/persistent/stack.h"
#include "passes/plan/direct_stores.h"
#include "passes/plan/earlier_reads.h"
#include "passes/plan/long_products.h"
#include "passes/plan/one_step.h"
#include "passes/plan/padding.h"
#include "passes/plan/split_gemms.h"
#include "passes/plan/wavefront.h"
#include "tests/passes/cases.h"
#include "tests/passes/graph/pass_check.h"
#include "tests/passes/schedule/stages_check.h"
#include "tests/support/case_files.h"
#include "tests/support/reference/golden.h"
#include "tests/support/reference/plan_executor.h"

namespace rnnc::test {
namespace {

constexpr char kUnchanged[] = "unchanged";

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// ---- Graphs ----

struct GraphPass {
  std::string_view name;
  bool (*run)(Graph&);
  bool again_nothing = true;  // when run again it finds nothing to do
  bool same_results = true;   // as the interpreter gives them, also with states that are given
};
bool find_histories(Graph& graph) {
  return std::ranges::any_of(make_histories(graph),
                             [](const StateSteps& steps) { return steps.count > 1; });
}

constexpr GraphPass kGraphPasses[] = {
    {"dead-code", run_dead_code},
    {"cse", run_common_subexpressions},
    {"fold", run_constant_folding},
    {"dot-products", run_dot_products},
    {"identities", run_identities},
    {"structure", run_structure},
    {"distribute-products", run_distribute_products},
    {"delays", run_delays, true, false},
    {"lengths", run_lengths, false},
    {"resets", run_resets, false},
    {"in-reverse", run_in_reverse, false, false},
    {"histories", find_histories, false, false},
    {"pipeline", [](Graph& graph) { return run_pipeline(graph).has_value(); }, false}};

const GraphPass* find_graph_pass(std::string_view name) {
  const auto found = std::ranges::find(kGraphPasses, name, &GraphPass::name);
  return found == std::end(kGraphPasses) ? nullptr : found;
}

/// Runs the passes that `words` name; whether the first of them says that it changed something.
bool run_all(const std::vector<std::string>& words, Graph& graph) {
  bool changed = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const GraphPass* pass = find_graph_pass(words[i]);
    RNNC_CHECK(pass != nullptr, "there is no pass {}", words[i]);
    const bool did = pass->run(graph);
    changed = i == 0 ? did : changed;
  }
  const Status status = verify(graph);
  EXPECT_TRUE(status) << status.error().message;
  return changed;
}

/// The lines that are not the frame's, where they give the whole graph back.
std::string without_frame(const FileCase& one, const std::string& text) {
  if (one.frame.empty()) return text;
  std::istringstream frame_stream(to_string(parse_graph(one.framed("")).value()));
  std::vector<std::string> frame;
  for (std::string line; std::getline(frame_stream, line);) frame.push_back(line);
  std::string rest;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::ranges::find(frame, line) == frame.end()) rest += line + "\n";
  }
  return rest;
}

/// Whether the text, which may be anything, is of the graph that `printed` is.
bool is_graph(const std::string& text, const std::string& printed) {
  const Result<Graph> graph = parse_graph(text);
  return graph && verify(*graph) && normal(text) == printed;
}

void check_graph_passes(const FileCase& one, const std::vector<std::string>& words) {
  const Graph before = graph_from(one.framed(one.text()));
  Graph graph = before;
  const bool changed = run_all(words, graph);
  if (!changed) {
    if (words.size() == 1) {
      EXPECT_EQ(to_string(graph), to_string(before));
    }
    return expect_output(one, kUnchanged);
  }
  const std::string result = to_string(graph);
  const GraphPass& pass = *find_graph_pass(words[0]);
  if (pass.same_results) expect_same_results(before, graph, 1);
  if (pass.again_nothing) {
    EXPECT_FALSE(run_all(words, graph)) << to_string(graph);
    EXPECT_EQ(to_string(graph), result);
  }
  if (is_graph(one.framed(one.expected + "\n"), result)) return;
  expect_output(one, without_frame(one, result));
}

/// `stages PASSES`, `stages PASSES B=257`, `stages PASSES gpu`: what runs when, of the plan with
/// these passes; `stages PASSES after=schedule`: on the way to it.
void check_stages(const FileCase& one, const std::vector<std::string>& words) {
  int64_t batch = 3;
  Machine machine;
  std::string after;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "gpu") {
      machine = h200_machine();
    } else if (words[i].starts_with("after=")) {
      after = words[i].substr(6);
    } else {
      batch = std::stoll(words[i].substr(2));
    }
  }
  expect_output(one, lines(stages_of(one.framed(one.text()), words[1], batch, machine, after)));
}

// ---- Plans ----

/// What the words behind the passes say.
struct PlanSetting {
  Machine machine = h200_machine();
  int64_t max_steps = 1000;
};

Result<bool> memory(Plan& plan, bool reuse) {
  if (Status status = assign_memory(plan, reuse); !status) return tl::unexpected(status.error());
  if (reuse) {
    EXPECT_EQ(plan.workspace_bytes, live_workspace_bytes(plan));
  }
  return true;
}

struct PlanPass {
  std::string_view name;
  Result<bool> (*run)(Plan&, const PlanSetting&);
};
/// Of `pad` and `split` any product is worth it.
constexpr PlanPass kPlanPasses[] = {
    {"pad",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_padding(plan, setting.machine,
                          {.max_steps = setting.max_steps,
                           .least_rows = 1,
                           .least_size = 1,
                           .least_library_rows = 1});
     }},
    {"split",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_split_gemms(plan, setting.machine,
                              {.max_steps = setting.max_steps, .always = true});
     }},
    {"earlier",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_earlier_reads(plan, setting.machine);
     }},
    {"direct",
     [](Plan& plan, const PlanSetting&) -> Result<bool> {
       return run_direct_stores(plan, /*products=*/true);
     }},
    {"long",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_long_products(plan, setting.machine);
     }},
    {"wavefront",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_wavefront(plan, setting.machine);
     }},
    {"stack",
     [](Plan& plan, const PlanSetting& setting) { return run_stack(plan, setting.machine); }},
    {"resident",
     [](Plan& plan, const PlanSetting& setting) { return run_resident(plan, setting.machine); }},
    {"one-step", [](Plan& plan, const PlanSetting&) -> Result<bool> { return run_one_step(plan); }},
    {"initial-values",
     [](Plan& plan, const PlanSetting&) -> Result<bool> { return run_initial_values(plan); }},
    {"round",
     [](Plan& plan, const PlanSetting&) -> Result<bool> { return run_round_states(plan); }},
    {"absorb",
     [](Plan& plan, const PlanSetting& setting) -> Result<bool> {
       return run_absorb_products(plan, setting.machine);
     }},
    {"memory", [](Plan& plan, const PlanSetting&) { return memory(plan, /*reuse=*/true); }},
    {"memory-apart", [](Plan& plan, const PlanSetting&) { return memory(plan, /*reuse=*/false); }}};

/// "buffers:" and what is below it, of a plan's text; the head is "plan …".
std::vector<std::string> sections_of(const Plan& plan) {
  std::vector<std::string> sections(1);
  std::istringstream text(to_string(plan));
  for (std::string line; std::getline(text, line);) {
    const bool opens =
        line == "buffers:" || line == "kernels:" || line == "stages:" || line == "states:";
    if (opens) sections.emplace_back();
    sections.back() += line + "\n";
  }
  return sections;
}

/// The sections that are not as before.
std::string changes(const Plan& before, const Plan& after) {
  const std::vector<std::string> old = sections_of(before);
  const std::vector<std::string> sections = sections_of(after);
  std::string text;
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i] != old[i]) text += sections[i];
  }
  return text;
}

/// Inputs and params for a plan; multiples of 1/8 up to 1.
InterpreterArgs plan_args(const Plan& plan, int64_t steps) {
  InterpreterArgs args;
  args.steps = steps;
  args.batch = plan.batch;
  std::mt19937_64 engine(1);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.role != Role::Input && buffer.role != Role::Param) continue;
    const int64_t rows = buffer.role == Role::Param ? 1 : steps * plan.batch;
    std::vector<double>& values =
        (buffer.role == Role::Param ? args.params : args.inputs).emplace_back();
    for (int64_t i = 0; i < rows * buffer.width; ++i) {
      values.push_back(static_cast<double>(engine() % 17) / 8 - 1);
    }
  }
  return args;
}

double tolerance(DType dtype) {
  if (dtype == DType::bf16) return 5e-2;
  return dtype == DType::f16 ? 1e-2 : 2e-5;
}

/// Where the plan has all that it takes to run.
void expect_same_execution(Plan before, Plan after, bool has_memory, bool one_step) {
  if (!assign_memory(before, /*reuse=*/false) || !verify(before)) return;
  if (!has_memory) {
    ASSERT_TRUE(assign_memory(after, /*reuse=*/true));
  }
  const Status status = verify(after);
  ASSERT_TRUE(status) << status.error().message;
  const InterpreterArgs args = plan_args(before, one_step ? 1 : 2 * before.chunk + 1);
  const InterpreterResult expected = execute_plan(before, args);
  const InterpreterResult actual = execute_plan(after, args);
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_LE(error_of(actual.outputs[i], expected.outputs[i]), tolerance(before.dtype));
  }
  for (size_t i = 0; i < expected.final_states.size(); ++i) {
    EXPECT_LE(error_of(actual.final_states[i], expected.final_states[i]), tolerance(before.dtype));
  }
  for (size_t i = 0; i < expected.results.size(); ++i) {
    EXPECT_LE(error_of(actual.results[i], expected.results[i]), tolerance(before.dtype));
  }
}

/// Which buffers calls of one step may find in the caller's arrays.
std::string direct_text(const Plan& plan) {
  const std::vector<DirectState> states = find_direct_states(plan);
  std::string text;
  for (size_t i = 0; i < states.size(); ++i) {
    const auto& [initial, starts_at_zero, final] = states[i];
    std::vector<std::string> parts;
    if (initial != kNoBuffer) parts.push_back(fmt::format("reads b{}", initial));
    if (starts_at_zero) parts.emplace_back("from zero");
    if (final != kNoBuffer) parts.push_back(fmt::format("writes b{}", final));
    if (parts.empty()) parts.emplace_back("is copied");
    text +=
        fmt::format("{}{}: {}", i == 0 ? "" : "\n", plan.states[i].name, fmt::join(parts, ", "));
  }
  return text;
}

/// `PASS… [cpu] [T=STEPS]`: sections that are not as before; `verify`: what is wrong with it; or
/// `direct-states`.
void check_plan_passes(const FileCase& one, const std::vector<std::string>& words) {
  const Result<Plan> parsed = parse_plan(one.framed(one.text()));
  ASSERT_TRUE(parsed) << one.file << ", " << one.title << ": " << parsed.error().message;
  PlanSetting setting;
  std::vector<const PlanPass*> passes;
  bool direct = false;
  for (const std::string& word : words) {
    const auto found = std::ranges::find(kPlanPasses, word, &PlanPass::name);
    if (found != std::end(kPlanPasses)) {
      passes.push_back(found);
    } else if (word == "cpu") {
      setting.machine = cpu_machine(2);
    } else if (word.starts_with("T=")) {
      setting.max_steps = std::stoll(word.substr(2));
    } else if (word == "direct-states") {
      direct = true;
    } else {
      RNNC_CHECK(word == "verify", "there is no pass {}", word);
    }
  }
  if (direct) return expect_output(one, direct_text(*parsed));
  Plan plan = *parsed;
  bool changed = false;
  for (const PlanPass* pass : passes) {
    const Result<bool> did = pass->run(plan, setting);
    if (!did) return expect_output(one, "error: " + did.error().message);
    changed = changed || *did;
  }
  if (passes.empty()) {
    const Status status = verify(plan);
    return expect_output(one, status ? "valid" : status.error().message);
  }
  expect_output(one, changed ? changes(*parsed, plan) : kUnchanged);
  const bool has_memory = passes.back()->name.starts_with("memory");
  if (changed) expect_same_execution(*parsed, plan, has_memory, setting.max_steps == 1);
}

class PassCase : public testing::TestWithParam<FileCase> {};

TEST_P(PassCase, IsAsExpected) {
  const FileCase& one = GetParam();
  SCOPED_TRACE(one.file + ": " + one.title);
  const std::vector<std::string> words = words_of(one.command);
  ASSERT_FALSE(words.empty());
  if (words[0] == "stages") return check_stages(one, words);
  if (find_graph_pass(words[0]) != nullptr) return check_graph_passes(one, words);
  check_plan_passes(one, words);
}

INSTANTIATE_TEST_SUITE_P(Cases, PassCase, testing::ValuesIn(read_file_cases("tests/passes/cases")),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace

}  // namespace rnnc::test
