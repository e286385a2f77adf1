/// Reads tests/goldens and compares tensors with them. A golden holds up to 64 values of a tensor,
/// at places that its size decides, and one random projection of the whole, so that every element
/// counts.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/status.h"

namespace rnnc::test {

/// Root of the source tree's data (examples/, tests/goldens/): the environment's RNNC_TEST_DATA for
/// test programs that were carried to another machine, else where they were built.
std::filesystem::path data_root();

/// The text of a file below `data_root()`.
std::string read_data(const std::filesystem::path& path);

/// What a golden holds of `tensor`: its samples, then the projection sum(w * tensor) / sqrt(n).
std::vector<double> summarise(const std::vector<double>& tensor);

/// Summaries of several tensors, by name.
using Summaries = std::map<std::string, std::vector<double>>;

/// max|a - b| / (1 + max|b|); infinite where sizes differ or just one of a pair is NaN or infinite.
double error_of(const std::vector<double>& actual, const std::vector<double>& expected);

/// Goldens of one cell. Names in the file are "T7_B3_H64_f32/h", and "…/final.h" for the state
/// after the last step.
class GoldenFile {
 public:
  static Result<GoldenFile> read(std::string_view cell);
  /// The summaries of one case's outputs and final states ("h", "final.c"); empty if there is none.
  Summaries of_case(const std::string& name) const;

 private:
  Summaries tensors_;
};

}  // namespace rnnc::test
