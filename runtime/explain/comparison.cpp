// Both sides are JSON as docs/explain.md has it, so that what is compared is what is written.
// 1. Settings are compared as text.
// 2. Launches are the same that run at the same place and compute the same, the first such with the
//    first. They are as they were if they run the same way and, within a hundredth, as long.
#include "runtime/explain/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/describe.h"
#include "runtime/explain/print.h"

namespace rnnc::explain {
namespace {

using Json = nlohmann::json;

constexpr double kSameTime = 0.01;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// "x [80], y [512]": the caller's arrays of a kind.
std::string arrays_of(const Json& data, std::string_view kind) {
  std::string text;
  for (const Json& array : data.at("arrays")) {
    if (array.at("kind") != kind) continue;
    text += text.empty() ? "" : ", ";
    text += fmt::format("{} {}", text_of(array.at("name")), text_of(array.at("shape")));
  }
  return text;
}

void add_settings(const Json& then, const Json& now, std::vector<Comparison::Setting>& settings) {
  const auto add = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) settings.push_back({std::string(what), before, after});
  };
  const auto is = [&](std::string_view what, const Json& before, const Json& after) {
    add(what, text_of(before), text_of(after));
  };
  is("version", then.value("version", Json("unknown")), now.at("version"));
  is("cell", then.at("name"), now.at("name"));
  is("device", then.at("machine").at("name"), now.at("machine").at("name"));
  is("units", then.at("machine").at("units"), now.at("machine").at("units"));
  for (const char* key : {"dtype", "tf32", "batch", "steps", "chunk", "passes"}) {
    is(key, then.at(key), now.at(key));
  }
  for (const char* kind : {"input", "param", "state", "output", "result"}) {
    add(fmt::format("{}s", kind), arrays_of(then, kind), arrays_of(now, kind));
  }
  std::map<std::string, std::string> texts;
  for (const Json& file : then.at("sources")) texts.emplace(file.at("name"), file.at("text"));
  for (const Json& file : now.at("sources")) {
    const auto before = texts.find(file.at("name"));
    if (before != texts.end() && before->second != file.at("text").get<std::string>()) {
      settings.push_back({"text of " + before->first, "as it was", "changed"});
    }
  }
}

void add_figures(const Json& then, const Json& now, std::vector<Comparison::Figure>& figures) {
  using Unit = Comparison::Unit;
  const auto a_step = [](const Json& data, const Json& value) {
    return value.get<double>() / data.at("steps").get<double>();
  };
  const auto add = [&](std::string_view what, Unit unit, const char* part, const char* key) {
    const auto value = [&](const Json& data) { return a_step(data, data.at(part).at(key)); };
    figures.push_back({std::string(what), unit, value(then), value(now)});
  };
  const bool measured = !then.value("measured", Json()).is_null() && !now.at("measured").is_null();
  if (measured) add("measured time", Unit::Seconds, "measured", "seconds");
  add("predicted time", Unit::Seconds, "totals", "seconds");
  add("floor", Unit::Seconds, "totals", "floor_seconds");
  add("FLOP", Unit::Operations, "totals", "flops");
  add("bytes", Unit::Bytes, "totals", "bytes");
  add("launches", Unit::Count, "totals", "launches");
  const auto workspace = [](const Json& data) {
    return data.at("memory").at("workspace_bytes").get<double>();
  };
  figures.push_back({"workspace", Unit::Bytes, workspace(then), workspace(now)});
}

struct Launch {
  std::string what;
  std::string place;  // domain of its stage
  Comparison::Side side;
};

std::vector<Launch> launches_of(const Json& data) {
  std::vector<Launch> launches;
  for (const Json& stage : data.at("stages")) {
    for (const Json& launch : stage.at("launches")) {
      const double seconds = launch.at("cost").at("seconds").get<double>();
      const Json measured = launch.value("measured_seconds", Json());
      Comparison::Side side{.id = launch.at("id"),
                            .strategy = launch.at("strategy"),
                            .seconds = seconds * launch.at("runs").get<double>(),
                            .measured = {}};
      if (!measured.is_null()) side.measured = measured.get<double>();
      launches.push_back({launch.at("what"), stage.at("domain"), std::move(side)});
    }
  }
  return launches;
}

bool is_alike(const Comparison::Side& then, const Comparison::Side& now) {
  const double apart = std::abs(then.seconds - now.seconds);
  return then.strategy == now.strategy && apart <= kSameTime * std::max(then.seconds, now.seconds);
}

void add_launches(const Json& then, const Json& now, Comparison& comparison) {
  std::vector<Launch> before = launches_of(then);
  std::vector<bool> found(before.size());
  for (Launch& launch : launches_of(now)) {
    size_t at = 0;
    while (at < before.size() &&
           (found[at] || before[at].what != launch.what || before[at].place != launch.place)) {
      ++at;
    }
    std::optional<Comparison::Side> other;
    if (at < before.size()) {
      found[at] = true;
      other = before[at].side;
    }
    if (other && is_alike(*other, launch.side)) {
      ++comparison.alike;
    } else {
      comparison.launches.push_back({launch.what, std::move(other), std::move(launch.side)});
    }
  }
  for (size_t at = 0; at < before.size(); ++at) {
    if (found[at]) continue;
    comparison.launches.push_back({before[at].what, std::move(before[at].side), {}});
  }
}

Comparison compare(std::string_view name, const Json& then, const Json& now) {
  Comparison comparison;
  comparison.name = name;
  comparison.version = text_of(then.value("version", Json("unknown")));
  add_settings(then, now, comparison.settings);
  add_figures(then, now, comparison.figures);
  add_launches(then, now, comparison);
  return comparison;
}

/// Calls `use` with what the file says.
template <typename Use>
Status read_other(std::string_view name, std::string_view json, bool training, const Use& use) {
  const Json other = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!other.is_object() || !(other.contains("stages") || other.contains("forward"))) {
    return fail("{} is no explanation: `rnnc explain --json` writes one", quote(name));
  }
  if (training && !other.contains("forward")) {
    return fail("{} is not of training: leave out --backward", quote(name));
  }
  if (!training && other.contains("forward")) {
    return fail("{} is of training: that needs --backward here, too", quote(name));
  }
  try {
    use(other);
  } catch (const Json::exception& wrong) {
    return fail("{} is no explanation that can be compared: {}", quote(name), wrong.what());
  }
  return {};
}

}  // namespace

std::string_view name_of(Comparison::Unit unit) {
  switch (unit) {
    case Comparison::Unit::Seconds:
      return "seconds";
    case Comparison::Unit::Operations:
      return "operations";
    case Comparison::Unit::Bytes:
      return "bytes";
    case Comparison::Unit::Count:
      break;
  }
  return "count";
}

Status compare_with(Explanation& explanation, std::string_view name, std::string_view json) {
  return read_other(name, json, /*training=*/false, [&](const Json& other) {
    explanation.against = compare(name, other, Json::parse(explanation_json(explanation)));
  });
}

Status compare_with(TrainingExplanation& explanation, std::string_view name,
                    std::string_view json) {
  return read_other(name, json, /*training=*/true, [&](const Json& other) {
    const Json now = Json::parse(explanation_json(explanation));
    explanation.forward.against = compare(name, other.at("forward"), now.at("forward"));
    explanation.backward.against = compare(name, other.at("backward"), now.at("backward"));
  });
}

}  // namespace rnnc::explain
