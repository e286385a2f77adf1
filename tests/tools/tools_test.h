/// A folder with a few cells, in which `rnnc` is run.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/arrays/array.h"
#include "runtime/arrays/npy.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/tools/command_run.h"

namespace rnnc::test {

class Tools : public ::testing::Test {
 protected:
  Tools() {
    directory_.write("toy.rnn", R"(
/// One state, an input, a matrix and a bias.
cell Toy[I, H](x: [I]) -> h {
  state h: [H]
  param W: [H, I]
  param b: [H]
  h[t] = tanh(W @ x[t] + b + h[t-1])
}
)");
    directory_.write("two.rnn", R"(
cell Sum[H](x: [H]) -> s {
  state s: [H]
  s[t] = s[t-1] + x[t]
}
cell Scale[H](x: [H]) -> y {
  param g: [H]
  y = g * x[t]
}
)");
    directory_.write("bad.rnn", "cell Bad[I](x: [I]) -> y {\n  y = x[t] + z\n}\n");
  }

  CommandResult rnnc(const std::vector<std::string>& arguments) const {
    return run_command(directory_.path(), arguments);
  }
  /// The output of a command that succeeds without a word on standard error.
  std::string good(const std::vector<std::string>& arguments) const {
    const CommandResult result = rnnc(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.errors, "");
    return result.output;
  }
  /// What a command that fails with `exit_code` says, and only on standard error.
  std::string bad(int exit_code, const std::vector<std::string>& arguments) const {
    const CommandResult result = rnnc(arguments);
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_EQ(result.output, "");
    return result.errors;
  }

  /// What is said of a wrong command line; `meant` is the word that was likely meant.
  static std::string usage_error(const std::string& command, const std::string& problem,
                                 const std::string& meant = "") {
    return fmt::format("rnnc: error: {}\n  hint: {}see `{} --help`\n", problem,
                       meant.empty() ? "" : fmt::format("did you mean `{}`? ", meant), command);
  }

  void write_array(const std::string& name, std::vector<int64_t> shape,
                   const std::vector<double>& values, DType dtype = DType::f64) const {
    EXPECT_TRUE(write_npy(directory_ / name, Array::from_doubles(values, std::move(shape), dtype)));
  }
  /// An .npy file of whole numbers, as `np.save` writes an int64 array of one axis.
  static std::string lengths_file(const Array& values) {
    const std::vector<double> numbers = values.to_doubles();
    std::string bytes = format_npy(values.as(DType::f64));
    bytes.replace(bytes.find("<f8"), 3, "<i8");
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto number = static_cast<int64_t>(numbers[i]);
      bytes.replace(bytes.size() - (numbers.size() - i) * sizeof number, sizeof number,
                    reinterpret_cast<const char*>(&number), sizeof number);
    }
    return bytes;
  }
  Array read_array(const std::string& name) const {
    const Result<Array> array = read_npy(directory_ / name);
    EXPECT_TRUE(array) << array.error().message;
    return array.value_or(Array::zeros(DType::f64, {0}));
  }

  TemporaryDirectory directory_;
};

}  // namespace rnnc::test
