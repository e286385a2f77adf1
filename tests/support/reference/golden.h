/// Reads tests/goldens and compares tensors with them. A golden holds up to 64 values of a tensor,
/// at places that its size decides, and one random projection of the whole, so that every element
/// counts.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "ir/graph/dim.h"

namespace rnnc::test {

/// Root of the source tree's data (examples/, tests/goldens/): the environment's RNNC_TEST_DATA for
/// test programs that were carried to another machine, else where they were built.
std::filesystem::path data_root();

/// The text of a file below `data_root()`.
std::string read_data(const std::filesystem::path& path);

/// A text's lines, without their ends.
std::vector<std::string> lines_of(const std::string& text);

/// What a golden holds of `tensor`: its samples, then the projection sum(w * tensor) / sqrt(n).
std::vector<double> summarise(const std::vector<double>& tensor);

/// Summaries of several tensors, by name.
using Summaries = std::map<std::string, std::vector<double>>;

/// max|a - b| / (1 + max|b|); infinite where sizes differ or just one of a pair is NaN or infinite.
double error_of(const std::vector<double>& actual, const std::vector<double>& expected);
/// The greatest of several arrays; infinite where there are not as many.
double worst_error(const std::vector<std::vector<double>>& actual,
                   const std::vector<std::vector<double>>& expected);

/// One size of a cell in its goldens' grid.
struct GoldenSize {
  std::string name;  // "T7_B3_H64"
  int64_t steps = 0;
  int64_t batch = 0;
  bool given_states = false;  // initial states are given; else they start as declared
  DimBindings dims;
};

/// Goldens of one cell. Names in the file are "T7_B3_H64_f32/h", and "…/final.h" for the state
/// after the last step; its metadata says what the cases are.
class GoldenFile {
 public:
  static Result<GoldenFile> read(std::string_view cell);
  /// Whether make_goldens.py wrote this file.
  static bool is_one(const std::filesystem::path& path);
  /// What made the numbers: a library's cell ("torch.nn.LSTM"), or "equations".
  const std::string& source() const { return source_; }
  const std::vector<GoldenSize>& sizes() const { return sizes_; }
  /// The number that an input's or param's values lie around.
  double around(const std::string& array) const;
  /// The summaries of one case's outputs and final states ("h", "final.c"); empty if there is none.
  Summaries of_case(const std::string& name) const;

 private:
  std::string source_;
  std::vector<GoldenSize> sizes_;
  std::map<std::string, double> around_;
  Summaries tensors_;
};

}  // namespace rnnc::test
