#include "codegen/cpu/column_loop.h"

#include <vector>

namespace rnnc {

using llvm::Value;

Value* emit_column_loop(llvm::IRBuilder<>& builder, Value* begin, Value* end, int64_t step,
                        const std::function<void(Value*)>& body) {
  llvm::LLVMContext& context = builder.getContext();
  llvm::BasicBlock* before = builder.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(context, "vectors", before->getParent());
  auto* after = llvm::BasicBlock::Create(context, "rest", before->getParent());
  Value* last = builder.CreateSub(end, builder.getInt64(step));
  builder.CreateCondBr(builder.CreateICmpSLE(begin, last), loop, after);
  builder.SetInsertPoint(loop);
  llvm::PHINode* index = builder.CreatePHI(builder.getInt64Ty(), 2, "index");
  index->addIncoming(begin, before);
  body(index);
  Value* next = builder.CreateAdd(index, builder.getInt64(step));
  llvm::BasicBlock* done = builder.GetInsertBlock();
  index->addIncoming(next, done);
  builder.CreateCondBr(builder.CreateICmpSLE(next, last), loop, after);
  builder.SetInsertPoint(after);
  llvm::PHINode* rest = builder.CreatePHI(builder.getInt64Ty(), 2, "rest");
  rest->addIncoming(begin, before);
  rest->addIncoming(next, done);
  return rest;
}

Value* emit_tail_mask(llvm::IRBuilder<>& builder, Value* begin, Value* end, unsigned lanes) {
  std::vector<llvm::Constant*> numbers(lanes);
  for (unsigned lane = 0; lane < lanes; ++lane) numbers[lane] = builder.getInt32(lane);
  Value* rest = builder.CreateTrunc(builder.CreateSub(end, begin), builder.getInt32Ty());
  return builder.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                               builder.CreateVectorSplat(lanes, rest));
}

}  // namespace rnnc
