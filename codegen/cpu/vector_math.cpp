#include "codegen/cpu/vector_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/DynamicLibrary.h>

#include <optional>
#include <vector>

namespace rnnc {

using llvm::CmpInst;
using llvm::Value;
using llvm::Intrinsic::ID;

namespace {

/// Of an op that is just a function of the libraries; null of others.
const char* library_function(Op op) {
  switch (op) {
    case Op::Log:
      return "log";
    case Op::Log1p:
      return "log1p";
    case Op::Erf:
      return "erf";
    case Op::Sin:
      return "sin";
    case Op::Cos:
      return "cos";
    default:
      return nullptr;
  }
}

std::optional<CmpInst::Predicate> predicate_of(Op op) {
  switch (op) {
    case Op::Lt:
      return CmpInst::FCMP_OLT;
    case Op::Le:
      return CmpInst::FCMP_OLE;
    case Op::Gt:
      return CmpInst::FCMP_OGT;
    case Op::Ge:
      return CmpInst::FCMP_OGE;
    case Op::Eq:
      return CmpInst::FCMP_OEQ;
    case Op::Ne:
      return CmpInst::FCMP_UNE;
    default:
      return std::nullopt;
  }
}

}  // namespace

VectorMath::VectorMath(llvm::IRBuilder<>& builder, const HostTarget& host,
                       llvm::FixedVectorType* type)
    : builder_(builder),
      host_(host),
      type_(type),
      integers_(llvm::FixedVectorType::getInteger(type)),
      single_(type->getElementType()->isFloatTy()) {}

llvm::Constant* VectorMath::constant(double value) const {
  return llvm::ConstantFP::get(type_, value);
}

Value* VectorMath::multiply_add(Value* a, Value* b, Value* c) {
  // Without the instruction, llvm.fma would be a library call for every element.
  if (!host_.fma) return builder_.CreateFAdd(builder_.CreateFMul(a, b), c);
  return builder_.CreateIntrinsic(type_, llvm::Intrinsic::fma, {a, b, c});
}

Value* VectorMath::fabs(Value* x) {
  return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
}

Value* VectorMath::minimum(Value* a, Value* b) {
  Value* smaller = builder_.CreateSelect(builder_.CreateFCmpOLT(b, a), b, a);
  // A NaN in a is what the comparison leaves; one in b has to be put back.
  return builder_.CreateSelect(builder_.CreateFCmpUNO(b, b), b, smaller);
}

Value* VectorMath::maximum(Value* a, Value* b) {
  Value* greater = builder_.CreateSelect(builder_.CreateFCmpOGT(b, a), b, a);
  return builder_.CreateSelect(builder_.CreateFCmpUNO(b, b), b, greater);
}

Value* VectorMath::compare(CmpInst::Predicate predicate, Value* a, Value* b) {
  return builder_.CreateSelect(builder_.CreateFCmp(predicate, a, b), constant(1), constant(0));
}

Value* VectorMath::sign(Value* x) {
  Value* positive = builder_.CreateSelect(builder_.CreateFCmpOGT(x, constant(0)), constant(1), x);
  Value* either =
      builder_.CreateSelect(builder_.CreateFCmpOLT(x, constant(0)), constant(-1), positive);
  return either;  // zero and NaN are their own sign
}

Value* VectorMath::gelu(Value* x) {
  // erfc keeps the relative accuracy of the left tail, where 1 + erf would cancel.
  Value* scaled = builder_.CreateFMul(x, constant(-0.70710678118654752440));
  Value* tail = call_library("erfc", {scaled});
  return builder_.CreateFMul(builder_.CreateFMul(x, constant(0.5)), tail);
}

/// C's fmod, which is a - q b of the whole quotient q towards zero. Of one with few digits a - q b is
/// exact; all lanes wait for the library where one has more, or no remainder less than |b|.
Value* VectorMath::remainder(Value* a, Value* b) {
  if (!host_.fma) return builder_.CreateFRem(a, b);
  const auto is_negative = [&](Value* x) { return builder_.CreateFCmpOLT(x, constant(0)); };
  const auto with_sign_of_a = [&](Value* x) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, a);
  };
  Value* quotient =
      builder_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, builder_.CreateFDiv(a, b));
  Value* rest = multiply_add(builder_.CreateFNeg(quotient), b, a);
  // What was rounded up to a whole quotient is one too large.
  Value* past = builder_.CreateAnd(builder_.CreateXor(is_negative(rest), is_negative(a)),
                                   builder_.CreateFCmpONE(rest, constant(0)));
  rest = builder_.CreateSelect(past, builder_.CreateFAdd(rest, with_sign_of_a(b)), rest);
  rest = with_sign_of_a(rest);
  const double most = single_ ? 0x1p22 : 0x1p51;
  Value* exact = builder_.CreateAnd(builder_.CreateFCmpOLT(fabs(quotient), constant(most)),
                                    builder_.CreateFCmpOLT(fabs(rest), fabs(b)));
  llvm::LLVMContext& context = builder_.getContext();
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* library = llvm::BasicBlock::Create(context, "remainders", before->getParent());
  auto* after = llvm::BasicBlock::Create(context, "remainders_done", before->getParent());
  builder_.CreateCondBr(builder_.CreateAndReduce(exact), after, library,
                        llvm::MDBuilder(context).createBranchWeights(1 << 10, 1));
  builder_.SetInsertPoint(library);
  Value* others = builder_.CreateFRem(a, b);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  llvm::PHINode* result = builder_.CreatePHI(type_, 2);
  result->addIncoming(rest, before);
  result->addIncoming(others, library);
  return result;
}

Value* VectorMath::modulo(Value* a, Value* b) {
  Value* rest = remainder(a, b);
  Value* zero = builder_.CreateFCmpOEQ(rest, constant(0));
  Value* rest_negative = builder_.CreateFCmpOLT(rest, constant(0));
  Value* divisor_negative = builder_.CreateFCmpOLT(b, constant(0));
  Value* differ = builder_.CreateXor(rest_negative, divisor_negative);
  Value* shift = builder_.CreateAnd(differ, builder_.CreateNot(zero));
  // A NaN stays one whether or not b is added.
  return builder_.CreateSelect(shift, builder_.CreateFAdd(rest, b), rest);
}

Value* VectorMath::power(Value* a, Value* b) {
  // C's pow(1, NaN) and pow(NaN, 0) are 1; here NaN passes through.
  Value* sum = builder_.CreateFAdd(a, b);
  Value* nan = builder_.CreateFCmpUNO(a, b);
  return builder_.CreateSelect(nan, sum, call_library("pow", {a, b}));
}

Value* VectorMath::apply(Op op, llvm::ArrayRef<Value*> operands) {
  if (const char* function = library_function(op)) return call_library(function, operands);
  if (const auto predicate = predicate_of(op)) {
    return compare(*predicate, operands[0], operands[1]);
  }
  const auto a = [&] { return operands[0]; };
  const auto b = [&] { return operands[1]; };
  switch (op) {
    case Op::Neg:
      return builder_.CreateFNeg(a());
    case Op::Add:
      return builder_.CreateFAdd(a(), b());
    case Op::Sub:
      return builder_.CreateFSub(a(), b());
    case Op::Mul:
      return builder_.CreateFMul(a(), b());
    case Op::Div:
      return builder_.CreateFDiv(a(), b());
    case Op::Sigmoid:
      return sigmoid(a());
    case Op::Tanh:
      return tanh(a());
    case Op::Relu:
      return maximum(constant(0), a());
    case Op::Exp:
      return exp(a());
    case Op::Expm1:
      return expm1(a());
    case Op::Sqrt:
      return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a());
    case Op::Rsqrt:
      return builder_.CreateFDiv(constant(1),
                                 builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a()));
    case Op::Abs:
      return fabs(a());
    case Op::Sign:
      return sign(a());
    case Op::Round:
      return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, a());
    case Op::StopGradient:
      return a();
    case Op::Floor:
      return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a());
    case Op::Softplus:
      return softplus(a());
    case Op::Silu:
      return builder_.CreateFMul(a(), sigmoid(a()));
    case Op::Gelu:
      return gelu(a());
    case Op::Elu:
      return builder_.CreateSelect(builder_.CreateFCmpOGT(a(), constant(0)), a(), expm1(a()));
    case Op::Min:
      return minimum(a(), b());
    case Op::Max:
      return maximum(a(), b());
    case Op::Pow:
      return power(a(), b());
    case Op::Mod:
      return modulo(a(), b());
    case Op::Where:
      return builder_.CreateSelect(builder_.CreateFCmpUNE(a(), constant(0)), b(), operands[2]);
    case Op::Clamp:
      return minimum(maximum(a(), b()), operands[2]);
    default:
      RNNC_CHECK(false, "`{}` has no vector lowering", info(op).name);
  }
}

std::string vector_library_name(const std::string& function, unsigned lanes, unsigned vector_bits,
                                size_t arity) {
  // The x86-64 vector function ABI: e is AVX-512, d AVX2, b SSE; N is without a mask.
  const char isa = vector_bits == 512 ? 'e' : vector_bits == 256 ? 'd' : 'b';
  return fmt::format("_ZGV{}N{}{}_{}", isa, lanes, std::string(arity, 'v'), function);
}

bool vector_library_has(const std::string& name) {
  std::string error;
  static llvm::sys::DynamicLibrary library =
      llvm::sys::DynamicLibrary::getLibrary("libmvec.so.1", &error);
  return library.isValid() && library.getAddressOfSymbol(name.c_str()) != nullptr;
}

Value* VectorMath::call_library(const std::string& name, llvm::ArrayRef<Value*> operands) {
  const std::string function = name + (single_ ? "f" : "");
  const std::string symbol =
      vector_library_name(function, type_->getNumElements(), vector_bits(), operands.size());
  if (!host_.x86 || !vector_library_has(symbol)) return call_scalar_library(function, operands);
  const std::vector<llvm::Type*> parameters(operands.size(), type_);
  llvm::Module* module = builder_.GetInsertBlock()->getModule();
  const llvm::FunctionCallee callee =
      module->getOrInsertFunction(symbol, llvm::FunctionType::get(type_, parameters, false));
  return builder_.CreateCall(callee, operands);
}

Value* VectorMath::call_scalar_library(const std::string& name, llvm::ArrayRef<Value*> operands) {
  llvm::Type* element = type_->getElementType();
  const std::vector<llvm::Type*> parameters(operands.size(), element);
  llvm::Module* module = builder_.GetInsertBlock()->getModule();
  const llvm::FunctionCallee callee =
      module->getOrInsertFunction(name, llvm::FunctionType::get(element, parameters, false));
  // For the fence see where KernelEmitter stores one element of a vector.
  std::vector<Value*> whole;
  for (Value* operand : operands) whole.push_back(builder_.CreateArithmeticFence(operand, type_));
  Value* result = llvm::PoisonValue::get(type_);
  for (unsigned lane = 0; lane < type_->getNumElements(); ++lane) {
    std::vector<Value*> elements;
    for (Value* operand : whole) {
      elements.push_back(builder_.CreateExtractElement(operand, lane));
    }
    result = builder_.CreateInsertElement(result, builder_.CreateCall(callee, elements), lane);
  }
  return result;
}

}  // namespace rnnc
