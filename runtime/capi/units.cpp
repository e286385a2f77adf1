// From text to step graphs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "runtime/capi/border.h"
#include "runtime/capi/handles.h"
#include "runtime/program/read_unit.h"

using rnnc::Result;
using rnnc::Status;
using rnnc::Unit;
using rnnc::capi::call;
using rnnc::capi::check_given;

struct rnnc_unit {
  Unit unit;
};

namespace {

/// The handle, and whether its text is right.
Status give_unit(Unit parsed, rnnc_unit** unit) {
  *unit = new rnnc_unit{std::move(parsed)};
  if ((*unit)->unit.check()) return {};
  return rnnc::fail_as(rnnc::ErrorKind::InvalidText, "{}", (*unit)->unit.render());
}

/// The one that is asked for, or the only one.
Result<std::string> definition_of(const Unit& unit, const char* name) {
  if (name != nullptr) return name;
  const std::vector<std::string> all = unit.definitions();
  if (all.size() == 1) return all[0];
  return rnnc::fail("the text defines {}; name the one that is meant",
                    all.empty() ? "nothing" : fmt::format("{}", fmt::join(all, ", ")));
}

}  // namespace

rnnc_status rnnc_unit_parse(const char* name, const char* text, rnnc_unit** unit) {
  return call([&]() -> Status {
    if (unit != nullptr) *unit = nullptr;
    const Status given = check_given({{name, "name"}, {text, "text"}, {unit, "unit"}});
    return given ? give_unit(rnnc::parse_unit(name, text), unit) : given;
  });
}

rnnc_status rnnc_unit_read(const char* path, rnnc_unit** unit) {
  return call([&]() -> Status {
    if (unit != nullptr) *unit = nullptr;
    if (Status given = check_given({{path, "path"}, {unit, "unit"}}); !given) return given;
    Result<Unit> read = rnnc::read_unit(path);
    if (!read) return tl::unexpected(read.error());
    return give_unit(*std::move(read), unit);
  });
}

rnnc_status rnnc_unit_definitions(const rnnc_unit* unit, rnnc_text** names) {
  return call([&]() -> Status {
    if (names != nullptr) *names = nullptr;
    if (Status given = check_given({{unit, "unit"}, {names, "names"}}); !given) return given;
    std::string text;
    for (const std::string& name : unit->unit.definitions()) text += name + "\n";
    *names = new rnnc_text{std::move(text)};
    return {};
  });
}

rnnc_status rnnc_unit_diagnostics(const rnnc_unit* unit, rnnc_text** diagnostics) {
  return call([&]() -> Status {
    if (diagnostics != nullptr) *diagnostics = nullptr;
    const Status given = check_given({{unit, "unit"}, {diagnostics, "diagnostics"}});
    if (!given) return given;
    *diagnostics = new rnnc_text{unit->unit.render()};
    return {};
  });
}

void rnnc_unit_free(rnnc_unit* unit) {
  delete unit;
}

rnnc_status rnnc_unit_lower(rnnc_unit* unit, const char* definition, const rnnc_dim* dims,
                            size_t count, rnnc_graph** graph) {
  return call([&]() -> Status {
    if (graph != nullptr) *graph = nullptr;
    if (Status given = check_given({{unit, "unit"}, {graph, "graph"}}); !given) return given;
    const Result<rnnc::DimBindings> bindings = rnnc::capi::bindings_of(dims, count);
    if (!bindings) return tl::unexpected(bindings.error());
    const Result<std::string> name = definition_of(unit->unit, definition);
    if (!name) return tl::unexpected(name.error());
    std::optional<rnnc::Graph> lowered = unit->unit.lower(*name, *bindings);
    if (!lowered) {
      return rnnc::fail_as(rnnc::ErrorKind::InvalidText, "{}", unit->unit.render());
    }
    *graph = new rnnc_graph{*std::move(lowered)};
    return {};
  });
}

rnnc_status rnnc_graph_text(const rnnc_graph* graph, rnnc_text** text) {
  return call([&]() -> Status {
    if (text != nullptr) *text = nullptr;
    if (Status given = check_given({{graph, "graph"}, {text, "text"}}); !given) return given;
    *text = new rnnc_text{rnnc::to_string(graph->graph)};
    return {};
  });
}

void rnnc_graph_free(rnnc_graph* graph) {
  delete graph;
}
