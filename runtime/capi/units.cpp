// From text to step graphs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "frontend/unit.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "runtime/capi/border.h"
#include "runtime/capi/handles.h"
#include "runtime/program/read_unit.h"
#include "runtime/program/shipped_units.h"

using rnnc::Result;
using rnnc::Status;
using rnnc::Unit;
using rnnc::capi::call;
using rnnc::capi::check_given;
using rnnc::capi::give;

struct rnnc_unit {
  Unit unit;
};

namespace {

/// The handle, and whether its text is right.
Status give_unit(Unit parsed, rnnc_unit*& unit) {
  unit = new rnnc_unit{std::move(parsed)};
  if (unit->unit.check()) return {};
  return rnnc::fail_as(rnnc::ErrorKind::InvalidText, "{}", unit->unit.render());
}

/// The one that is asked for, or the only one.
Result<std::string> definition_of(const Unit& unit, const char* name) {
  if (name != nullptr) return name;
  const std::vector<std::string> all = unit.definitions();
  if (all.size() == 1) return all[0];
  return rnnc::fail("the text defines {}; name the one that is meant",
                    all.empty() ? "nothing" : fmt::format("{}", fmt::join(all, ", ")));
}

std::string lines_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

}  // namespace

rnnc_status rnnc_unit_parse(const char* name, const char* text, rnnc_unit** unit) {
  return call([&]() -> Status {
    if (unit == nullptr) return rnnc::fail("`unit` is NULL");
    *unit = nullptr;
    Status given = check_given({{name, "name"}, {text, "text"}});
    return given ? give_unit(rnnc::parse_unit(name, text), *unit) : given;
  });
}

rnnc_status rnnc_unit_read(const char* path, rnnc_unit** unit) {
  return call([&]() -> Status {
    if (unit == nullptr) return rnnc::fail("`unit` is NULL");
    *unit = nullptr;
    if (Status given = check_given({{path, "path"}}); !given) return given;
    Result<Unit> read = rnnc::read_unit(path);
    return read ? give_unit(*std::move(read), *unit) : tl::unexpected(read.error());
  });
}

rnnc_status rnnc_unit_shipped(const char* name, rnnc_unit** unit) {
  return call([&]() -> Status {
    if (unit == nullptr) return rnnc::fail("`unit` is NULL");
    *unit = nullptr;
    if (Status given = check_given({{name, "name"}}); !given) return given;
    Result<Unit> shipped = rnnc::shipped_unit(name);
    return shipped ? give_unit(*std::move(shipped), *unit) : tl::unexpected(shipped.error());
  });
}

rnnc_status rnnc_shipped(rnnc_text** names) {
  return call([&] {
    return give(names, "names", []() -> Result<rnnc_text*> {
      return new rnnc_text{lines_of(rnnc::shipped_units())};
    });
  });
}

rnnc_status rnnc_unit_definitions(const rnnc_unit* unit, rnnc_text** names) {
  return call([&] {
    return give(names, "names", [&]() -> Result<rnnc_text*> {
      const Status given = check_given({{unit, "unit"}});
      if (!given) return tl::unexpected(given.error());
      return new rnnc_text{lines_of(unit->unit.definitions())};
    });
  });
}

rnnc_status rnnc_unit_diagnostics(const rnnc_unit* unit, rnnc_text** diagnostics) {
  return call([&] {
    return give(diagnostics, "diagnostics", [&]() -> Result<rnnc_text*> {
      const Status given = check_given({{unit, "unit"}});
      if (!given) return tl::unexpected(given.error());
      return new rnnc_text{unit->unit.render()};
    });
  });
}

void rnnc_unit_free(rnnc_unit* unit) {
  delete unit;
}

rnnc_status rnnc_unit_lower(rnnc_unit* unit, const char* definition, const rnnc_dim* dims,
                            size_t count, rnnc_graph** graph) {
  return call([&] {
    return give(graph, "graph", [&]() -> Result<rnnc_graph*> {
      const Status given = check_given({{unit, "unit"}});
      if (!given) return tl::unexpected(given.error());
      const Result<rnnc::DimBindings> bindings = rnnc::capi::bindings_of(dims, count);
      if (!bindings) return tl::unexpected(bindings.error());
      const Result<std::string> name = definition_of(unit->unit, definition);
      if (!name) return tl::unexpected(name.error());
      std::optional<rnnc::Graph> lowered = unit->unit.lower(*name, *bindings);
      if (lowered) return new rnnc_graph{*std::move(lowered)};
      return rnnc::fail_as(rnnc::ErrorKind::InvalidText, "{}", unit->unit.render());
    });
  });
}

rnnc_status rnnc_graph_text(const rnnc_graph* graph, rnnc_text** text) {
  return call([&] {
    return give(text, "text", [&]() -> Result<rnnc_text*> {
      const Status given = check_given({{graph, "graph"}});
      if (!given) return tl::unexpected(given.error());
      return new rnnc_text{rnnc::to_string(graph->graph)};
    });
  });
}

rnnc_status rnnc_graph_parse(const char* text, rnnc_graph** graph) {
  return call([&] {
    return give(graph, "graph", [&]() -> Result<rnnc_graph*> {
      const Status given = check_given({{text, "text"}});
      if (!given) return tl::unexpected(given.error());
      Result<rnnc::Graph> parsed = rnnc::parse_graph(text);
      if (!parsed) return tl::unexpected(parsed.error());
      if (const Status status = rnnc::verify(*parsed); !status) {
        return tl::unexpected(status.error());
      }
      return new rnnc_graph{*std::move(parsed)};
    });
  });
}

void rnnc_graph_free(rnnc_graph* graph) {
  delete graph;
}
