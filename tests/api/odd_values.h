/// What no caller should give, and what one might.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/program/run.h"

namespace rnnc::test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  int64_t below(int64_t count) { return static_cast<int64_t>(engine_() % count); }
  bool one_in(int64_t count) { return below(count) == 0; }
  template <typename T, size_t n>
  const T& pick(const T (&values)[n]) {
    return values[below(n)];
  }
  template <typename T>
  T& pick(std::vector<T>& values) {
    return values[below(std::ssize(values))];
  }
  /// Often 0 to `most`, else at the end of some range.
  int64_t number(int64_t most);
  /// Likewise, without those that are merely large: of things that take memory.
  int64_t size(int64_t most);
  DType dtype();
  std::string bytes(int64_t most);
  /// With some bytes changed, lost or doubled.
  std::string damaged(std::string text);
  /// A shape that is often one of an array.
  std::vector<int64_t> shape();

 private:
  std::mt19937_64 engine_;
};

/// Of this shape and element type, with small numbers, as it should be.
Array array_of(Random& random, const std::vector<int64_t>& shape, DType dtype = DType::f32);
/// Often not what its shape says.
Array odd_array(Random& random);
std::vector<NamedArray> odd_arrays(Random& random);

/// Arrays as the signature wants them.
RunArgs right_args(Random& random, const Signature& signature, int64_t steps, int64_t batch);
/// Gradients of some outputs and final states.
LossGradients right_loss(Random& random, const Signature& signature, int64_t steps, int64_t batch);
/// Then one or several things about them are wrong.
void spoil(Random& random, RunArgs& args);
void spoil(Random& random, LossGradients& loss);

CompileOptions odd_options(Random& random);

}  // namespace rnnc::test
