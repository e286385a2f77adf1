#include "codegen/cpu/emit_round_map.h"

#include <limits>

namespace rnnc {

using llvm::Value;

RoundMap::Values RoundMap::identity() {
  const size_t m = size();
  Values map(m * m + m, zero());
  Value* one = math_.constant(round_.semiring == Semiring::SumProduct ? 1 : 0);
  for (size_t i = 0; i < m; ++i) map[i * m + i] = one;
  map.push_back(math_.constant(0));
  return map;
}

RoundMap::Values RoundMap::then(const Values& map, const std::function<Value*(uint32_t)>& value) {
  const size_t m = size();
  Values next(map.size());
  for (size_t i = 0; i < m; ++i) {
    Value* offset = value(round_.offsets[i]);
    for (size_t k = 0; k < m; ++k) {
      offset = join(offset, value(round_.coefficients[i * m + k]), map[m * m + k]);
    }
    next[m * m + i] = offset;
    for (size_t j = 0; j < m; ++j) {
      Value* coefficient = times(value(round_.coefficients[i * m]), map[j]);
      for (size_t k = 1; k < m; ++k) {
        coefficient = join(coefficient, value(round_.coefficients[i * m + k]), map[k * m + j]);
      }
      next[i * m + j] = coefficient;
    }
  }
  next.back() = map.back();
  for (size_t i = 0; i + 1 < next.size(); ++i) next.back() = greatest(next.back(), next[i]);
  return next;
}

Value* RoundMap::zero() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (round_.semiring == Semiring::SumProduct) return math_.constant(0);
  return math_.constant(round_.semiring == Semiring::MaxPlus ? -kInfinity : kInfinity);
}

Value* RoundMap::times(Value* a, Value* b) {
  const bool product = round_.semiring == Semiring::SumProduct;
  return product ? builder_.CreateFMul(a, b) : builder_.CreateFAdd(a, b);
}

Value* RoundMap::join(Value* sum, Value* a, Value* b) {
  if (round_.semiring == Semiring::SumProduct) return math_.multiply_add(a, b, sum);
  Value* term = builder_.CreateFAdd(a, b);
  return round_.semiring == Semiring::MaxPlus ? math_.maximum(sum, term) : math_.minimum(sum, term);
}

Value* RoundMap::greatest(Value* so_far, Value* value) {
  Value* size = math_.apply(Op::Abs, {value});
  if (round_.semiring != Semiring::SumProduct) {
    size = builder_.CreateSelect(builder_.CreateFCmpOEQ(value, zero()), math_.constant(0), size);
  }
  return builder_.CreateSelect(builder_.CreateFCmpOGT(size, so_far), size, so_far);
}

}  // namespace rnnc
