// Makes the table of the shipped cells: which compile, and how far they are from their goldens on
// each device.
//
//     rnnc_cell_table --device cpu        # measures, then writes docs/cells.json and docs/cells.md
//
// docs/cells.json keeps what other devices gave before, so each machine adds its columns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "runtime/base/files.h"
#include "tests/support/cells/golden_cases.h"

namespace rnnc::test {
namespace {

using nlohmann::json;

/// The table's columns of errors.
struct Column {
  std::string name;
  Device::Kind device;
  DType dtype;
};
const std::vector<Column> kColumns = {
    {"CPU f32", Device::Kind::cpu, DType::f32},
    {"CPU f64", Device::Kind::cpu, DType::f64},
    {"GPU f32", Device::Kind::cuda, DType::f32},
    {"GPU bf16", Device::Kind::cuda, DType::bf16},
};

/// {"error": …, "worst": …}, or {"failure": …} if it does not compile or run.
json measure(const std::string& cell, const Column& column) {
  const std::vector<DType> roundings = column.device == Device::Kind::cpu
                                           ? std::vector{DType::f32, DType::bf16, DType::f16}
                                           : std::vector{column.dtype};
  const auto report = run_golden_cases(golden_cases(cell, roundings),
                                       {.dtype = column.dtype, .device = {.kind = column.device}});
  if (!report) return {{"failure", report.error().message}};
  if (!std::isfinite(report->error)) return {{"failure", "not finite in " + report->worst}};
  return {{"error", report->error}, {"worst", report->worst}};
}

/// Adds the device's columns to the results.
Status measure_device(const Device& device, json& results) {
  for (const DeviceDescription& found : list_devices()) {
    if (found.name != device.to_string() && found.name != device.to_string() + ":0") continue;
    if (!found.usable) return fail("{} cannot be used: {}", found.name, found.reason);
    results["devices"][device.to_string()] = found.detail;
  }
  if (!results["devices"].contains(device.to_string())) {
    return fail("this build has no device {}", device.to_string());
  }
  for (const std::string& cell : golden_cells()) {
    for (const Column& column : kColumns) {
      if (column.device != device.kind) continue;
      const json result = measure(cell, column);
      results["cells"][cell][column.name] = result;
      fmt::print("{} {}: {}\n", cell, column.name, result.dump());
    }
  }
  return {};
}

bool matches(const json& result, const Column& column) {
  return result.contains("error") && result["error"] <= golden_tolerance(column.dtype);
}

std::string table_entry(const json& row, const Column& column) {
  if (!row.contains(column.name)) return "not run";
  const json& result = row[column.name];
  if (result.contains("failure")) return "**fails**";
  return fmt::format(fmt::runtime(matches(result, column) ? "{:.1e}" : "**{:.1e}**"),
                     result["error"].get<double>());
}

/// The first "(Authors … year" of the file's comments.
std::string paper_of(const std::string& file) {
  std::string text = std::regex_replace(read_data(file), std::regex("\n/// *"), " ");
  std::smatch found;
  static const std::regex kCitation(R"re(\(([^()"]*\b(?:19|20)\d\d)\b)re");
  return std::regex_search(text, found, kCitation) ? found[1].str() : "";
}

std::string markdown(const json& results) {
  std::string rows;
  std::map<std::string, int> matching;
  int compiling = 0;
  for (const std::string& cell : golden_cells()) {
    const json row = results["cells"].value(cell, json::object());
    const bool compiles = !row.empty() && std::ranges::none_of(row, [](const json& result) {
      return result.contains("failure");
    });
    compiling += compiles;
    const std::string file = golden_source(cell).value_or("");
    rows += fmt::format("| [{}](../{}) | {} | {} | {} |", cell, file, paper_of(file),
                        golden_file(cell).source(), compiles ? "yes" : "**no**");
    for (const Column& column : kColumns) {
      rows += fmt::format(" {} |", table_entry(row, column));
      if (row.contains(column.name) && matches(row[column.name], column)) ++matching[column.name];
    }
    rows += "\n";
  }
  const size_t count = golden_cells().size();
  std::string text = fmt::format(
      "# Cells\n\n"
      "The shipped cells and networks, and how far each is from an independent float64\n"
      "implementation (tests/goldens): the greatest error over all sizes, relative to 1 plus the\n"
      "greatest value. Made by `rnnc_cell_table`; an error above the tolerance is bold.\n\n"
      "- {} of {} compile.\n",
      compiling, count);
  for (const Column& column : kColumns) {
    text += fmt::format("- {} of {} match on {} (tolerance {:.0e}; {}).\n", matching[column.name],
                        count, column.name, golden_tolerance(column.dtype),
                        results["devices"].value(Device{column.device}.to_string(), "not run"));
  }
  text += "\n| cell | paper | golden | compiles |";
  std::string rule = "\n|---|---|---|---|";
  for (const Column& column : kColumns) {
    text += fmt::format(" {} |", column.name);
    rule += "---|";
  }
  return text + rule + "\n" + rows;
}

Status make_table(const std::optional<std::string>& device) {
  const auto results_file = data_root() / "docs/cells.json";
  json results = {{"devices", json::object()}, {"cells", json::object()}};
  if (std::filesystem::exists(results_file)) results = json::parse(read_data(results_file));
  std::erase_if(results["cells"].get_ref<json::object_t&>(), [](const auto& row) {
    return !std::ranges::binary_search(golden_cells(), row.first);
  });
  if (device) {
    const Result<Device> parsed = Device::parse(*device);
    if (!parsed) return tl::unexpected(parsed.error());
    if (Status status = measure_device(*parsed, results); !status) return status;
    if (Status status = write_file(results_file, results.dump(1) + "\n"); !status) return status;
  }
  return write_file(data_root() / "docs/cells.md", markdown(results));
}

}  // namespace
}  // namespace rnnc::test

int main(int argc, char** argv) {
  CLI::App app("The table of shipped cells, docs/cells.md");
  std::optional<std::string> device;
  app.add_option("--device", device, "measure on cpu or cuda; else only write the table");
  CLI11_PARSE(app, argc, argv);
  const rnnc::Status status = rnnc::test::make_table(device);
  if (!status) fmt::print(stderr, "{}\n", status.error().message);
  return status ? 0 : 1;
}
