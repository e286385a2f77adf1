#include "tests/support/reference/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/arrays/safetensors.h"
#include "runtime/base/files.h"
#include "tests/support/reference/deterministic.h"

namespace rnnc::test {
namespace {

constexpr size_t kSamples = 64;

/// What make_goldens.py wrote in the header of a well-formed safetensors file; null: nothing.
nlohmann::json metadata_of(std::string_view bytes) {
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_size, header_size));
  const nlohmann::json metadata = header.value("__metadata__", nlohmann::json::object());
  return nlohmann::json::parse(metadata.value("golden", "null"));
}

}  // namespace

std::filesystem::path data_root() {
  const char* root = std::getenv("RNNC_TEST_DATA");
  return root != nullptr ? root : RNNC_SOURCE_DIR;
}

std::string read_data(const std::filesystem::path& path) {
  std::ifstream file(data_root() / path, std::ios::binary);
  RNNC_CHECK(file.good(), "cannot read {}", (data_root() / path).string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<double> summarise(const std::vector<double>& tensor) {
  const size_t n = tensor.size();
  std::vector<double> summary;
  for (size_t i = 0; i < std::min(n, kSamples); ++i) {
    summary.push_back(tensor[n <= kSamples ? i : deterministic_bits("places", i) % n]);
  }
  const auto weights = deterministic_values("projection", static_cast<int64_t>(n), 1, DType::f64);
  double projection = 0;
  for (size_t i = 0; i < n; ++i) projection += weights[i] * tensor[i];
  summary.push_back(projection / std::sqrt(static_cast<double>(n)));
  return summary;
}

double error_of(const std::vector<double>& actual, const std::vector<double>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    const double b = expected[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!std::isfinite(a) || !std::isfinite(b)) return kInfinity;
    difference = std::max(difference, std::fabs(a - b));
  }
  for (double b : expected) {
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
  }
  return difference / (1 + largest);
}

double worst_error(const std::vector<std::vector<double>>& actual,
                   const std::vector<std::vector<double>>& expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, error_of(actual[i], expected[i]));
  }
  return worst;
}

Result<GoldenFile> GoldenFile::read(std::string_view cell) {
  const auto path = data_root() / "tests/goldens" / fmt::format("{}.safetensors", cell);
  const auto bytes = read_file(path);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto arrays = parse_safetensors(*bytes, path.string());
  if (!arrays) return tl::unexpected(arrays.error());
  GoldenFile file;
  for (const NamedArray& named : *arrays) file.tensors_[named.name] = named.array.to_doubles();

  const nlohmann::json about = metadata_of(*bytes);
  file.source_ = about.at("source");
  file.around_ = about.at("around");
  for (const nlohmann::json& size : about.at("cases")) {
    file.sizes_.push_back({.name = size.at("name"),
                           .steps = size.at("steps"),
                           .batch = size.at("batch"),
                           .given_states = size.at("given_states"),
                           .dims = size.at("dims").get<DimBindings>()});
  }
  return file;
}

bool GoldenFile::is_one(const std::filesystem::path& path) {
  if (path.extension() != ".safetensors") return false;
  const auto bytes = read_file(path);
  return bytes && !metadata_of(*bytes).is_null();
}

double GoldenFile::around(const std::string& array) const {
  const auto found = around_.find(array);
  return found == around_.end() ? 0 : found->second;
}

Summaries GoldenFile::of_case(const std::string& name) const {
  const std::string prefix = name + "/";
  Summaries found;
  for (auto it = tensors_.lower_bound(prefix);
       it != tensors_.end() && it->first.starts_with(prefix); ++it) {
    found[it->first.substr(prefix.size())] = it->second;
  }
  return found;
}

}  // namespace rnnc::test
