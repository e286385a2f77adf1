// The exponential family, inline.
//
// All of it rests on one split: n = round(x / ln 2), r = x - n ln 2 with |r| <= ln 2 / 2, so that
// exp(x) = 2^n * (1 + p) with p = exp(r) - 1 from its Taylor series. Keeping p apart from 1 lets
// expm1, and tanh through it, stay accurate near zero. The degree is the least at which the first
// term left out is below a tenth of a unit in the last place.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/cpu/vector_math.h"

namespace rnnc {

using llvm::Value;

Value* VectorMath::clamp(Value* x, double low, double high) {
  // NaN fails both comparisons and stays.
  x = builder_.CreateSelect(builder_.CreateFCmpOLT(x, constant(low)), constant(low), x);
  return builder_.CreateSelect(builder_.CreateFCmpOGT(x, constant(high)), constant(high), x);
}

VectorMath::ExpParts VectorMath::split_exp(Value* x) {
  // Adding this rounds to an integer that lands in the low bits of the significand. It is how
  // rounding and conversion work on every host, and it has no undefined result for NaN.
  llvm::Constant* magic = constant(single_ ? 0x1.8p23 : 0x1.8p52);
  Value* shifted = multiply_add(x, constant(1.44269504088896340736), magic);
  Value* rounded = builder_.CreateFSub(shifted, magic);
  Value* n = builder_.CreateSub(builder_.CreateBitCast(shifted, integers_),
                                builder_.CreateBitCast(magic, integers_));
  // ln 2 in two parts; the first has few bits, so that n times it is exact without FMA too.
  const double high = single_ ? -0.693359375 : -6.93145751953125e-1;
  const double low = single_ ? 2.12194440054690583e-4 : -1.42860682030941723212e-6;
  Value* r = multiply_add(rounded, constant(high), x);
  r = multiply_add(rounded, constant(low), r);
  // p = r + r^2 (1/2! + r/3! + r^2/4! + ...)
  const int degree = single_ ? 7 : 13;
  double factorial = 1;
  for (int k = 2; k <= degree; ++k) factorial *= k;
  Value* q = constant(1 / factorial);
  for (int k = degree - 1; k >= 2; --k) {
    factorial /= k + 1;
    q = multiply_add(q, r, constant(1 / factorial));
  }
  return {rounded, n, multiply_add(builder_.CreateFMul(r, r), q, r)};
}

Value* VectorMath::power_of_two(Value* n) {
  const uint64_t bias = single_ ? 127 : 1023;
  const uint64_t significand_bits = single_ ? 23 : 52;
  Value* biased = builder_.CreateAdd(n, llvm::ConstantInt::get(integers_, bias));
  Value* bits = builder_.CreateShl(biased, llvm::ConstantInt::get(integers_, significand_bits));
  return builder_.CreateBitCast(bits, type_);
}

Value* VectorMath::exp(Value* x) {
  // Beyond these bounds the result is 0 or infinity, and the scaling below gives that.
  const ExpParts parts = split_exp(single_ ? clamp(x, -104, 89) : clamp(x, -746, 710));
  if (host_.vector_bits == 512) {
    Value* all = llvm::ConstantInt::get(builder_.getIntNTy(type_->getNumElements()), -1, true);
    Value* sum = builder_.CreateFAdd(parts.p, constant(1));
    const auto scale = single_ ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                               : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
    constexpr int kCurrentRounding = 4;
    return builder_.CreateIntrinsic(
        scale, {}, {sum, parts.rounded, sum, all, builder_.getInt32(kCurrentRounding)});
  }
  // Two steps, since 2^n may be subnormal or beyond the largest number where the result is not.
  Value* half = builder_.CreateAShr(parts.n, llvm::ConstantInt::get(integers_, 1));
  Value* rest = builder_.CreateSub(parts.n, half);
  Value* value = builder_.CreateFAdd(parts.p, constant(1));
  value = builder_.CreateFMul(value, power_of_two(half));
  return builder_.CreateFMul(value, power_of_two(rest));
}

Value* VectorMath::expm1_within_range(Value* x) {
  const ExpParts parts = split_exp(x);
  // 2^n p + (2^n - 1), computed at half its size, since 2^n may be beyond the largest number.
  Value* less_one = builder_.CreateSub(parts.n, llvm::ConstantInt::get(integers_, 1));
  Value* half_scale = power_of_two(less_one);
  Value* offset = builder_.CreateFSub(half_scale, constant(0.5));
  return builder_.CreateFMul(multiply_add(half_scale, parts.p, offset), constant(2));
}

Value* VectorMath::expm1(Value* x) {
  return expm1_within_range(single_ ? clamp(x, -18, 89) : clamp(x, -38, 710));
}

Value* VectorMath::tanh(Value* x) {
  // tanh |x| = e / (e + 2) with e = expm1(2 |x|). At the bound the quotient rounds to 1.
  Value* magnitude = fabs(x);
  llvm::Constant* bound = constant(single_ ? 10 : 20);
  magnitude = builder_.CreateSelect(builder_.CreateFCmpOGT(magnitude, bound), bound, magnitude);
  Value* e = expm1_within_range(builder_.CreateFAdd(magnitude, magnitude));
  Value* quotient = builder_.CreateFDiv(e, builder_.CreateFAdd(e, constant(2)));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, quotient, x);
}

Value* VectorMath::sigmoid(Value* x) {
  // With z = exp(-|x|): 1 / (1 + z) on the right, z / (1 + z) on the left. Nothing overflows, and
  // the left tail keeps its relative accuracy.
  Value* z = exp(builder_.CreateFNeg(fabs(x)));
  Value* left = builder_.CreateFCmpOLT(x, constant(0));
  Value* numerator = builder_.CreateSelect(left, z, constant(1));
  return builder_.CreateFDiv(numerator, builder_.CreateFAdd(z, constant(1)));
}

Value* VectorMath::softplus(Value* x) {
  // max(x, 0) + log(1 + exp(-|x|))
  Value* tail = call_library("log1p", {exp(builder_.CreateFNeg(fabs(x)))});
  return builder_.CreateFAdd(maximum(constant(0), x), tail);
}

}  // namespace rnnc
