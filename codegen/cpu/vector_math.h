/// Scalar ops on vectors. The functions that gates are made of (exp, tanh, sigmoid, expm1) are
/// expanded inline; the others call glibc's vector library a whole vector at a time, or the scalar
/// library where the host has no vector one.
///
/// Accuracy: at most 4 units in the last place in f32 and f64, except `pow` and functions of large
/// arguments, which have the libraries' accuracy. NaN, infinities and subnormals give what
/// ir/graph/ops.h says they give.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

#include "codegen/cpu/host_target.h"
#include "ir/graph/ops.h"

namespace rnnc {

class VectorMath {
 public:
  /// `type` is a vector of float or double, of a width that the host has.
  VectorMath(llvm::IRBuilder<>& builder, const HostTarget& host, llvm::FixedVectorType* type);

  /// The value of a scalar op; `operands` are vectors of the type.
  llvm::Value* apply(Op op, llvm::ArrayRef<llvm::Value*> operands);

  llvm::Constant* constant(double value) const;
  /// a * b + c, rounded once where the host can.
  llvm::Value* multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  /// Smaller and greater of two; NaN if either is.
  llvm::Value* minimum(llvm::Value* a, llvm::Value* b);
  llvm::Value* maximum(llvm::Value* a, llvm::Value* b);

 private:
  /// exp(factor * x) = 2^n exp(factor * r).
  struct ExpParts {
    llvm::Value* rounded;  // n
    llvm::Value* biased;   // in its low bits n + the exponents' bias
    llvm::Value* r;
  };
  /// `far`: where n is large r must still be exact.
  ExpParts split_exp(llvm::Value* x, double factor, bool far);
  unsigned vector_bits() const { return type_->getPrimitiveSizeInBits().getFixedValue(); }
  llvm::Constant* rounding_constant() const;
  double exp_coefficient(int k) const;
  llvm::Value* exp_series(llvm::Value* r, int first);
  llvm::Value* coth_series(llvm::Value* r, double factor);
  llvm::Value* power_of_two(llvm::Value* biased);
  llvm::Value* scale(llvm::Value* x, const ExpParts& parts);
  llvm::Value* scale_by_instruction(llvm::Value* x, llvm::Value* n);
  llvm::Value* clamp(llvm::Value* x, double low, double high);

  llvm::Value* exp(llvm::Value* x);
  llvm::Value* expm1(llvm::Value* x);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);
  llvm::Value* softplus(llvm::Value* x);
  llvm::Value* gelu(llvm::Value* x);
  llvm::Value* sign(llvm::Value* x);
  llvm::Value* remainder(llvm::Value* a, llvm::Value* b);
  llvm::Value* modulo(llvm::Value* a, llvm::Value* b);
  llvm::Value* power(llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(llvm::CmpInst::Predicate predicate, llvm::Value* a, llvm::Value* b);
  llvm::Value* fabs(llvm::Value* x);
  llvm::Value* call_library(const std::string& name, llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* call_scalar_library(const std::string& name, llvm::ArrayRef<llvm::Value*> operands);

  llvm::IRBuilder<>& builder_;
  const HostTarget& host_;
  llvm::FixedVectorType* type_;
  llvm::FixedVectorType* integers_;  // as wide as the elements
  bool single_;                      // f32
};

/// Name in glibc's vector library of `function` on `lanes` elements, such as "_ZGVeN16v_logf".
std::string vector_library_name(const std::string& function, unsigned lanes, unsigned vector_bits,
                                size_t arity);

/// Whether this machine's vector library has the function of that name. Thread-safe.
bool vector_library_has(const std::string& name);

}  // namespace rnnc
