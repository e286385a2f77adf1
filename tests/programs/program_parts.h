/// What random programs are put together of.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace rnnc::test {

inline constexpr double kMostBound = 8;
inline constexpr size_t kFarthest = 300;  // steps back
inline constexpr size_t kTokens = 4;      // integers that inputs hold: 0, 1, …

/// Shapes of values. Every definition has dims I and H; H is even.
enum class Shape : uint8_t { Scalar, I, H, TwoH, HalfH };
inline constexpr std::array kVectors = {Shape::I, Shape::H, Shape::TwoH, Shape::HalfH};

inline std::string text_of(Shape shape) {
  static constexpr std::array kTexts = {"", "I", "H", "2 * H", "H / 2"};
  return kTexts[static_cast<size_t>(shape)];
}

struct Expression {
  std::string text;
  double bound = 1;
};

struct Variable {
  std::string text;  // `x[t]`, `h[t-1]`, `a`
  Shape shape = Shape::Scalar;
  double bound = 1;
};

/// What a call needs to know of a definition written before.
struct Callable {
  std::string name;
  std::vector<Shape> inputs, outputs;
  bool token = false;  // its last input is one of integers
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t below(size_t count) { return engine_() % count; }
  bool chance(size_t one_in) { return below(one_in) == 0; }
  template <typename List>
  const auto& pick(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

/// What all definitions of a program share.
struct DrawnProgram {
  explicit DrawnProgram(uint64_t seed) : random(seed) {}
  Random random;
  int64_t input = 1;   // I
  int64_t hidden = 2;  // H
  std::vector<std::string> consts;
  std::vector<std::pair<std::string, size_t>> fns;  // name, number of arguments
  std::vector<Callable> cells;
  bool reversed = false;
  int64_t farthest = 0;  // delay

  double size_of(Shape shape) const {
    const auto h = static_cast<double>(hidden);
    switch (shape) {
      case Shape::Scalar:
        return 1;
      case Shape::I:  // of a callee it may be any vector's
        return std::max(static_cast<double>(input), 2 * h);
      case Shape::H:
        return h;
      case Shape::TwoH:
        return 2 * h;
      case Shape::HalfH:
        return h / 2;
    }
    return 1;
  }
};

}  // namespace rnnc::test
