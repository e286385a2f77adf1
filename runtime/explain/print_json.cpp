#include <nlohmann/json.hpp>

#include "ir/plan/plan_text.h"
#include "runtime/explain/print.h"

namespace rnnc::explain {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Cost& cost) {
  return {{"flops", cost.flops},
          {"bytes", cost.bytes},
          {"seconds", cost.seconds},
          {"floor_seconds", cost.floor_seconds}};
}

Json to_json(const Totals& totals) {
  Json json = to_json(totals.cost);
  json["launches"] = totals.launches;
  return json;
}

Json to_json(const Machine& machine) {
  return {{"kind", machine.kind == Machine::Kind::Cpu ? "cpu" : "cuda"},
          {"name", machine.name},
          {"units", machine.units},
          {"memory_bandwidth", machine.memory_bandwidth},
          {"cache_bandwidth", machine.cache_bandwidth},
          {"cache_bytes", machine.cache_bytes},
          {"launch_seconds", machine.launch_seconds},
          {"exchange_seconds", machine.exchange_seconds},
          {"wave_seconds", machine.wave_seconds},
          {"submit_seconds", machine.submit_seconds},
          {"fork_seconds", machine.fork_seconds}};
}

Json to_json(const GraphPicture& picture) {
  Json nodes = Json::array();
  for (const GraphPicture::Node& node : picture.nodes) {
    nodes.push_back({{"kind", name_of(node.kind)},
                     {"label", node.label},
                     {"detail", node.detail},
                     {"stage", node.stage},
                     {"name", node.name},
                     {"place", node.place},
                     {"local", node.local},
                     {"launch", node.launch}});
  }
  Json edges = Json::array();
  for (const GraphPicture::Edge& edge : picture.edges) {
    edges.push_back({{"from", edge.from}, {"to", edge.to}, {"through_time", edge.through_time}});
  }
  Json repeats = Json::array();
  for (const auto& [first, length, count] : picture.repeats) {
    repeats.push_back({{"first", first}, {"length", length}, {"count", count}});
  }
  return {
      {"nodes", std::move(nodes)}, {"edges", std::move(edges)}, {"repeats", std::move(repeats)}};
}

Json to_json(const std::optional<double>& seconds) {
  return seconds ? Json(*seconds) : Json();
}

Json to_json(const Measured& measured) {
  return {{"seconds", measured.seconds},
          {"runs", measured.runs},
          {"timed_seconds", measured.timed_seconds},
          {"idle_seconds", measured.idle_seconds}};
}

Json to_json(const LaunchInfo& launch) {
  Json operations = Json::object();
  for (const auto& [name, count] : launch.operations) operations[name] = count;
  Json notes = Json::array();
  for (const LaunchInfo::Note& note : launch.notes) {
    notes.push_back({{"kind", note.kind}, {"text", note.text}});
  }
  return {{"id", launch.id},
          {"kind", launch.kind},
          {"what", launch.what},
          {"summary", launch.summary},
          {"strategy", launch.strategy},
          {"weights", launch.weights},
          {"reads", launch.reads},
          {"writes", launch.writes},
          {"operations", std::move(operations)},
          {"notes", std::move(notes)},
          {"lines", launch.lines},
          {"count", launch.count},
          {"runs", launch.runs},
          {"cost", to_json(launch.cost)},
          {"bound", name_of(launch.bound)},
          {"measured_seconds", to_json(launch.measured)}};
}

Json to_json(const StageInfo& stage) {
  Json launches = Json::array();
  for (const LaunchInfo& launch : stage.launches) launches.push_back(to_json(launch));
  return {{"id", stage.id},
          {"title", stage.title},
          {"domain", spelling(stage.domain)},
          {"recurrence", spelling(stage.recurrence)},
          {"reason", stage.reason},
          {"phases", stage.phases},
          {"sweep", stage.sweep},
          {"lag", stage.lag},
          {"cost", to_json(stage.cost)},
          {"measured_seconds", to_json(stage.measured)},
          {"launches", std::move(launches)}};
}

Json to_json(const MemoryMap& memory) {
  Json blocks = Json::array();
  for (const MemoryMap::Block& block : memory.blocks) {
    blocks.push_back({{"name", block.name},
                      {"place", name_of(block.arena)},
                      {"dtype", to_string(block.dtype)},
                      {"offset", block.offset},
                      {"bytes", block.bytes},
                      {"first", block.first},
                      {"last", block.last},
                      {"stage", block.stage}});
  }
  return {{"workspace_bytes", memory.workspace_bytes},
          {"workspace_bytes_fixed", memory.workspace_bytes_fixed},
          {"workspace_bytes_per_step", memory.workspace_bytes_per_step},
          {"live_bytes", memory.live_bytes},
          {"fixed_bytes_without_reuse", memory.fixed_bytes_without_reuse},
          {"program_bytes", memory.program_bytes},
          {"caller_bytes", memory.caller_bytes},
          {"launches", memory.launches},
          {"blocks", std::move(blocks)}};
}

Json to_json(const Waves& waves) {
  Json bars = Json::array();
  for (const Waves::Bar& bar : waves.bars) {
    bars.push_back({{"stage", bar.stage},
                    {"wave", bar.wave},
                    {"chunk", bar.chunk},
                    {"start", bar.start},
                    {"seconds", bar.seconds}});
  }
  return {{"chunks", waves.chunks},
          {"total", waves.total},
          {"lags", waves.lags},
          {"cut", waves.cut},
          {"bars", std::move(bars)}};
}

Json to_json(const std::optional<Comparison::Side>& side) {
  if (!side) return {};
  return {{"id", side->id},
          {"strategy", side->strategy},
          {"seconds", side->seconds},
          {"measured_seconds", to_json(side->measured)}};
}

Json to_json(const Comparison& comparison) {
  Json settings = Json::array();
  for (const auto& [what, then, now] : comparison.settings) {
    settings.push_back({{"what", what}, {"then", then}, {"now", now}});
  }
  Json figures = Json::array();
  for (const auto& [what, unit, then, now] : comparison.figures) {
    figures.push_back({{"what", what}, {"unit", name_of(unit)}, {"then", then}, {"now", now}});
  }
  Json launches = Json::array();
  for (const auto& [what, then, now] : comparison.launches) {
    launches.push_back({{"what", what}, {"then", to_json(then)}, {"now", to_json(now)}});
  }
  return {{"name", comparison.name},         {"version", comparison.version},
          {"settings", std::move(settings)}, {"figures", std::move(figures)},
          {"launches", std::move(launches)}, {"alike", comparison.alike}};
}

Json arrays_json(const Explanation& explanation) {
  Json arrays = Json::array();
  for (const Array& array : explanation.arrays) {
    arrays.push_back(
        {{"kind", array.kind}, {"name", array.name}, {"shape", to_string(array.shape)}});
  }
  return arrays;
}

Json sources_json(const Explanation& explanation) {
  Json sources = Json::array();
  for (const auto& [name, text] : explanation.sources) {
    sources.push_back({{"name", name}, {"text", text}});
  }
  return sources;
}

Json to_json(const Explanation& explanation) {
  Json stages = Json::array();
  for (const StageInfo& stage : explanation.stages) stages.push_back(to_json(stage));
  Json machine = to_json(explanation.machine);
  machine["product_rate"] = explanation.product_rate;
  machine["elementwise_rate"] = explanation.elementwise_rate;
  return {{"name", explanation.name},
          {"version", RNNC_VERSION},
          {"dtype", to_string(explanation.dtype)},
          {"tf32", explanation.tf32},
          {"batch", explanation.batch},
          {"steps", explanation.steps},
          {"chunk", explanation.chunk},
          {"passes", explanation.passes.to_string()},
          {"notes", explanation.notes},
          {"machine", std::move(machine)},
          {"arrays", arrays_json(explanation)},
          {"param_elements", explanation.param_elements},
          {"totals", to_json(explanation.totals)},
          {"once", to_json(explanation.once)},
          {"measured", explanation.measured ? to_json(*explanation.measured) : Json()},
          {"naive", explanation.naive ? to_json(*explanation.naive) : Json()},
          {"against", explanation.against ? to_json(*explanation.against) : Json()},
          {"sources", sources_json(explanation)},
          {"stages", std::move(stages)},
          {"waves", to_json(explanation.waves)},
          {"memory", to_json(explanation.memory)},
          {"graphs",
           {{"before", to_json(explanation.before)},
            {"simplified", to_json(explanation.simplified)},
            {"after", to_json(explanation.after)}}}};
}

Json residuals_json(const TrainingExplanation& explanation) {
  Json values = Json::array();
  for (const ResidualInfo& value : explanation.values) {
    values.push_back({{"name", value.name},
                      {"place", value.place},
                      {"shape", to_string(value.shape)},
                      {"how", value.how},
                      {"why", value.why},
                      {"asked", value.asked},
                      {"array", value.array},
                      {"bytes", value.bytes}});
  }
  const int64_t batch = explanation.forward.batch;
  const int64_t steps = explanation.forward.steps;
  return {{"choice", explanation.residuals},
          {"operations_per_byte", explanation.operations_per_byte},
          {"bytes_per_step", explanation.bytes_per_step},
          {"bytes_per_step_of_batch", explanation.bytes_per_step * batch},
          {"bytes", explanation.bytes_per_step * batch * steps},
          {"values", std::move(values)}};
}

Json to_json(const TrainingExplanation& explanation) {
  const Explanation& forward = explanation.forward;
  return {{"name", forward.name},         {"dtype", to_string(forward.dtype)},
          {"tf32", forward.tf32},         {"batch", forward.batch},
          {"steps", forward.steps},       {"notes", explanation.notes},
          {"wanted", explanation.wanted}, {"residuals", residuals_json(explanation)},
          {"forward", to_json(forward)},  {"backward", to_json(explanation.backward)}};
}

/// Names of a cell's own may be any bytes.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string explanation_json(const Explanation& explanation) {
  return dump(to_json(explanation));
}

std::string explanation_json(const TrainingExplanation& explanation) {
  return dump(to_json(explanation));
}

}  // namespace rnnc::explain
