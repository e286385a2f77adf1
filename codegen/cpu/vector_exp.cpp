// The exponential family, inline.
//
// All of it rests on one split: n = round(x / ln 2), r = x - n ln 2 with |r| <= ln 2 / 2, so that
// exp(x) = 2^n exp(r), where exp(r) is a short series. What is 2^n times something else too, or
// less one, is put together such that nothing cancels and nothing overflows.
//
// Quotients of exponentials, sigmoid and tanh, do without that series:
//
//     exp(2 y) = (C + y) / (C - y),    C = y coth(y) = 1 + y^2 / 3 - y^4 / 45 + ...
//
// and C, being even, takes half of the terms or fewer for the same accuracy. What is left are about
// as many additions as multiplications, of which Zen 4 does one each a cycle (of 512 bits). A
// division takes it the time of two multiplications: less than an estimated reciprocal with a
// Newton step.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "codegen/cpu/vector_math.h"

namespace rnnc {

using llvm::Value;

Value* VectorMath::clamp(Value* x, double low, double high) {
  // NaN fails both comparisons and stays.
  x = builder_.CreateSelect(builder_.CreateFCmpOLT(x, constant(low)), constant(low), x);
  return builder_.CreateSelect(builder_.CreateFCmpOGT(x, constant(high)), constant(high), x);
}

/// Coefficient k of the series of exp(r). In f32 those that make the largest error of exp(r) - 1,
/// relative to it, the least: 0.24 units in the last place. In f64 Taylor's.
double VectorMath::exp_coefficient(int k) const {
  if (single_) {
    constexpr double kBest[] = {
        1, 1, 0.5, 0x1.5554aap-3, 0x1.555538p-5, 0x1.122c52p-7, 0x1.6cd79p-10};
    return kBest[k];
  }
  double factorial = 1;
  for (int i = 2; i <= k; ++i) factorial *= i;
  return 1 / factorial;
}

/// The series of exp(r) from the term with r^first on, divided by r^first.
Value* VectorMath::exp_series(Value* r, int first) {
  const int degree = single_ ? 6 : 13;
  Value* sum = constant(exp_coefficient(degree));
  for (int k = degree - 1; k >= first; --k) {
    sum = multiply_add(sum, r, constant(exp_coefficient(k)));
  }
  return sum;
}

/// C / factor for y = factor * r, |y| <= ln 2 / 4. In f32 the coefficients that make the largest
/// error the least: 2.3e-9. In f64 those of the series.
Value* VectorMath::coth_series(Value* r, double factor) {
  constexpr double kSingle[] = {1, 0x1.55551ep-2, -0x1.6aa2acp-6};
  constexpr double kDouble[] = {1,           1.0 / 3,     -1.0 / 45,          2.0 / 945,
                                -1.0 / 4725, 2.0 / 93555, -1382.0 / 638512875};
  const std::span<const double> coefficients =
      single_ ? std::span<const double>(kSingle) : std::span<const double>(kDouble);
  Value* square = builder_.CreateFMul(r, r);
  Value* sum = nullptr;
  for (size_t k = coefficients.size(); k-- > 0;) {
    Value* term = constant(coefficients[k] * std::pow(factor, 2 * static_cast<double>(k) - 1));
    sum = sum == nullptr ? term : multiply_add(sum, square, term);
  }
  return sum;
}

/// Adding this rounds to an integer that lands in the low bits of the significand, with the
/// exponents' bias on top. It is how rounding and conversion work on every host, and it has no
/// undefined result for NaN.
llvm::Constant* VectorMath::rounding_constant() const {
  return constant(single_ ? 0x1.8p23 + 127 : 0x1.8p52 + 1023);
}

/// exp(factor * x) = 2^n exp(factor * r).
VectorMath::ExpParts VectorMath::split_exp(Value* x, double factor, bool far) {
  constexpr double kLn2 = 0.693147180559945309417;
  llvm::Constant* magic = rounding_constant();
  Value* shifted = multiply_add(x, constant(factor / kLn2), magic);
  Value* rounded = builder_.CreateFSub(shifted, magic);
  Value* r = nullptr;
  if (host_.fma && !far) {
    r = multiply_add(rounded, constant(-kLn2 / factor), x);
  } else {
    // ln 2 in two parts; the first has few bits, so that n times it is exact without FMA too. Both
    // are taken away, so that zero keeps its sign.
    r = multiply_add(rounded, constant(-0x1.62e4p-1 / factor), x);
    r = multiply_add(rounded, constant(-1.42860682030941723212e-6 / factor), r);
  }
  return {rounded, builder_.CreateBitCast(shifted, integers_), r};
}

/// 2^n of its low bits, where n with the bias is what a number's exponent can be.
Value* VectorMath::power_of_two(Value* biased) {
  const uint64_t significand_bits = single_ ? 23 : 52;
  Value* bits = builder_.CreateShl(biased, llvm::ConstantInt::get(integers_, significand_bits));
  return builder_.CreateBitCast(bits, type_);
}

/// AVX-512 has an instruction for it.
Value* VectorMath::scale_by_instruction(Value* x, Value* n) {
  // Masks have 8 bits at least.
  const unsigned lanes = std::max(type_->getNumElements(), 8U);
  Value* all = llvm::ConstantInt::get(builder_.getIntNTy(lanes), -1, true);
  if (vector_bits() == 512) {
    const auto scalef = single_ ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                                : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
    constexpr int kCurrentRounding = 4;
    return builder_.CreateIntrinsic(scalef, {},
                                    {x, n, x, all, builder_.getInt32(kCurrentRounding)});
  }
  const bool wide = vector_bits() == 256;
  const auto scalef = single_ ? (wide ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                                      : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128)
                              : (wide ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_256
                                      : llvm::Intrinsic::x86_avx512_mask_scalef_pd_128);
  return builder_.CreateIntrinsic(scalef, {}, {x, n, x, all});
}

/// x * 2^n, rounded once, for any n.
Value* VectorMath::scale(Value* x, const ExpParts& parts) {
  if (host_.avx512) return scale_by_instruction(x, parts.rounded);
  // Two steps, since 2^n may be subnormal or beyond the largest number where the result is not.
  const auto number = [&](uint64_t value) { return llvm::ConstantInt::get(integers_, value); };
  Value* n =
      builder_.CreateSub(parts.biased, builder_.CreateBitCast(rounding_constant(), integers_));
  Value* bias = number(single_ ? 127 : 1023);
  Value* half = builder_.CreateAShr(n, number(1));
  Value* rest = builder_.CreateSub(n, half);
  x = builder_.CreateFMul(x, power_of_two(builder_.CreateAdd(half, bias)));
  return builder_.CreateFMul(x, power_of_two(builder_.CreateAdd(rest, bias)));
}

Value* VectorMath::exp(Value* x) {
  // Beyond these bounds the result is 0 or infinity, and the scaling gives that.
  const ExpParts parts = split_exp(single_ ? clamp(x, -104, 89) : clamp(x, -746, 710), 1, true);
  return scale(exp_series(parts.r, 0), parts);
}

Value* VectorMath::expm1(Value* x) {
  const ExpParts parts = split_exp(single_ ? clamp(x, -18, 89) : clamp(x, -38, 710), 1, true);
  Value* p = multiply_add(builder_.CreateFMul(parts.r, parts.r), exp_series(parts.r, 2), parts.r);
  // 2^n p + (2^n - 1), computed at half its size, since 2^n may be beyond the largest number.
  Value* half =
      power_of_two(builder_.CreateSub(parts.biased, llvm::ConstantInt::get(integers_, 1)));
  Value* offset = builder_.CreateFSub(half, constant(0.5));
  return builder_.CreateFMul(multiply_add(half, p, offset), constant(2));
}

Value* VectorMath::tanh(Value* x) {
  // Of |x|: with exp(2 |x|) = 2^n (C + r) / (C - r), half of (2^n - 1) C + (2^n + 1) r over that
  // plus C - r. For n = 0 that is r / C. At the bound the quotient rounds to 1. An error of ln 2
  // counts the less the larger n is.
  Value* magnitude = fabs(x);
  Value* bound = constant(single_ ? 10 : 20);
  magnitude = builder_.CreateSelect(builder_.CreateFCmpOGT(magnitude, bound), bound, magnitude);
  const ExpParts parts = split_exp(magnitude, 2, /*far=*/false);
  Value* half =
      power_of_two(builder_.CreateSub(parts.biased, llvm::ConstantInt::get(integers_, 1)));
  Value* c = coth_series(parts.r, 1);
  Value* sum = multiply_add(builder_.CreateFSub(half, constant(0.5)), c,
                            builder_.CreateFMul(builder_.CreateFAdd(half, constant(0.5)), parts.r));
  Value* all = builder_.CreateFAdd(sum, builder_.CreateFSub(c, parts.r));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, builder_.CreateFDiv(sum, all),
                                        x);
}

Value* VectorMath::sigmoid(Value* x) {
  // exp(x) / (exp(x) + 1) with exp(x) = 2^n (C + r / 2) / (C - r / 2): nothing overflows, and the
  // left tail keeps its relative accuracy. At the upper bound the quotient rounds to 1.
  const ExpParts parts =
      split_exp(single_ ? clamp(x, -104, 20) : clamp(x, -746, 40), 1, /*far=*/true);
  Value* c = coth_series(parts.r, 0.5);
  Value* above = builder_.CreateFAdd(c, parts.r);
  Value* below = builder_.CreateFSub(c, parts.r);
  if (host_.avx512) {
    above = scale_by_instruction(above, parts.rounded);
  } else {
    // Multiplied by 2^-n, times a number with which all are powers of two that are not subnormal.
    const int shift = single_ ? -24 : -54;
    const int64_t bias = single_ ? 127 : 1023;
    Value* magic = builder_.CreateBitCast(rounding_constant(), integers_);
    Value* biased = builder_.CreateSub(
        builder_.CreateAdd(magic, llvm::ConstantInt::get(integers_, bias + shift)), parts.biased);
    above = builder_.CreateFMul(above, constant(std::ldexp(1.0, shift)));
    below = builder_.CreateFMul(below, power_of_two(biased));
  }
  return builder_.CreateFDiv(above, builder_.CreateFAdd(above, below));
}

Value* VectorMath::softplus(Value* x) {
  // max(x, 0) + log(1 + exp(-|x|))
  Value* tail = call_library("log1p", {exp(builder_.CreateFNeg(fabs(x)))});
  return builder_.CreateFAdd(maximum(constant(0), x), tail);
}

}  // namespace rnnc
