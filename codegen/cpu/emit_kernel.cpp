// Algorithm:
// 1. A loop over the rows. In it, the traversals of the kernel's schedule one after another.
// 2. Before a traversal: the values per row that are ready in it, as vectors of equal lanes, so
//    that they use the same vector math.
// 3. A traversal walks the row in whole vectors, several to an iteration, and ends with one masked
//    vector. In each it computes, on demand, what it stores, gathers or keeps in scratch. The
//    length is a constant, so the tail's mask is one too and short rows have no loop.
// 4. Without reductions there is one traversal, over the columns that the caller asks for: several
//    vectors to an iteration, then one, then a masked one. What a vector of it loads is loaded
//    before it stores anything, so that a result may take the place of an operand.
// 5. Reductions gather in one vector per place in the iteration; these are added in order, then
//    the lanes pairwise: the same order in every run.
#include "codegen/cpu/emit_kernel.h"

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <vector>

#include "codegen/cpu/column_loop.h"
#include "codegen/cpu/kernel_cost.h"
#include "codegen/cpu/kernel_schedule.h"
#include "codegen/cpu/rolled_body.h"
#include "codegen/cpu/vector_math.h"
#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

using llvm::Value;
using Kind = Instruction::Kind;

constexpr int64_t kRowsAhead = 2;  // a few hundred nanoseconds

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const HostTarget& host, const Kernel& kernel,
                const ArgumentStrides& known_strides, DType dtype)
      : module_(module),
        kernel_(kernel),
        known_strides_(known_strides),
        schedule_(schedule_kernel(kernel)),
        builder_(module.getContext()),
        element_(dtype == DType::f64 ? builder_.getDoubleTy() : builder_.getFloatTy()),
        lanes_(host.vectors.elementwise / element_->getScalarSizeInBits()),
        product_lanes_(host.vectors.products / element_->getScalarSizeInBits()),
        vector_(llvm::FixedVectorType::get(element_, lanes_)),
        math_(builder_, host, vector_) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    builder_.setFastMathFlags(flags);
  }

  void emit(const std::string& name);

 private:
  /// What a traversal has to compute.
  struct Work {
    std::vector<uint32_t> kept;        // instructions whose value goes to scratch
    std::vector<uint32_t> stores;      // store instructions, one value per element
    std::vector<uint32_t> reductions;  // indices into the schedule's
    bool empty() const { return kept.empty() && stores.empty() && reductions.empty(); }
  };
  /// Where in the row a vector lies, and the values already computed there.
  struct Place {
    Value* index;
    Value* mask;  // null: all lanes
    std::map<uint32_t, Value*> values;
  };
  using Accumulators = std::vector<std::vector<Value*>>;  // [reduction of the traversal][unrolled]

  void emit_row(Value* row);
  void emit_row_values(uint32_t traversal);
  Value* row_value(uint32_t instruction);
  Work work_of(uint32_t traversal) const;
  void emit_traversal(const Work& work, uint32_t traversal);
  void emit_columns(const Work& work);
  Value* emit_vectors(const Work& work, Value* begin, size_t unroll);
  void emit_main_loop(const Work& work, uint32_t traversal, int64_t iterations, Accumulators& sums);
  void emit_vector(const Work& work, uint32_t traversal, Place place, size_t unrolled,
                   Accumulators& sums);
  void emit_rolled(Value* begin, Value* mask, size_t vectors);
  void emit_rolled_row();
  void emit_rolled(std::vector<Place> places);
  Value* reduce(Op op, const std::vector<Place>& places, std::vector<Value*> values);
  Value* value_at(uint32_t instruction, uint32_t traversal, Place& place);
  Value* load_argument(uint32_t argument, const Place& place);
  Value* product_offset(uint32_t argument, const Place& place);
  void store(Value* value, Value* address, const Place& place);
  void prefetch(uint32_t argument, const Place& place);
  Value* scratch_address(uint32_t instruction, Value* index);
  Value* combine(RowReduction::Kind kind, Value* a, Value* b);
  Value* across_lanes(RowReduction::Kind kind, Value* value);
  Value* identity(RowReduction::Kind kind) const;

  llvm::Module& module_;
  const Kernel& kernel_;
  const ArgumentStrides& known_strides_;
  const KernelSchedule schedule_;
  llvm::IRBuilder<> builder_;
  llvm::Type* element_;
  unsigned lanes_;
  unsigned product_lanes_;  // a multiple
  llvm::FixedVectorType* vector_;
  VectorMath math_;

  llvm::Function* function_ = nullptr;
  Value* scratch_ = nullptr;
  Value* column_begin_ = nullptr;
  Value* column_end_ = nullptr;
  std::vector<Value*> arguments_, strides_;  // of the call
  std::vector<Value*> column_strides_;       // likewise; null but for results of products
  std::vector<Value*> tail_offsets_;         // likewise
  bool follows_products_ = false;
  std::vector<Value*> row_addresses_;      // per argument, of the current row
  std::map<uint32_t, Value*> row_values_;  // per instruction with one value per row
  std::vector<Value*> reduced_;            // per reduction
};

void KernelEmitter::emit(const std::string& name) {
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* integer = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      builder_.getVoidTy(), {pointer, pointer, integer, integer, integer, integer, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
  function_->setDoesNotThrow();
  Value* begin = function_->getArg(2);
  Value* end = function_->getArg(3);
  column_begin_ = function_->getArg(4);
  column_end_ = function_->getArg(5);
  scratch_ = function_->getArg(6);

  llvm::LLVMContext& context = module_.getContext();
  auto* entry = llvm::BasicBlock::Create(context, "entry", function_);
  auto* row_loop = llvm::BasicBlock::Create(context, "row", function_);
  builder_.SetInsertPoint(entry);
  const auto stride = [&](size_t i) -> Value* {
    return builder_.CreateLoad(
        integer, builder_.CreateConstInBoundsGEP1_64(integer, function_->getArg(1), i));
  };
  const size_t count = kernel_.arguments.size();
  for (size_t i = 0; i < count; ++i) {
    arguments_.push_back(builder_.CreateLoad(
        pointer, builder_.CreateConstInBoundsGEP1_64(pointer, function_->getArg(0), i)));
    strides_.push_back(known_strides_[i] ? builder_.getInt64(*known_strides_[i]) : stride(i));
    column_strides_.push_back(kernel_.arguments[i].product ? stride(count + i) : nullptr);
    tail_offsets_.push_back(kernel_.arguments[i].product ? stride(2 * count + i) : nullptr);
    follows_products_ = follows_products_ || kernel_.arguments[i].product;
  }
  auto* done = llvm::BasicBlock::Create(context, "done", function_);
  builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), row_loop, done);

  builder_.SetInsertPoint(row_loop);
  llvm::PHINode* row = builder_.CreatePHI(integer, 2, "row");
  row->addIncoming(begin, entry);
  emit_row(row);
  Value* next = builder_.CreateAdd(row, builder_.getInt64(1));
  row->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, end), row_loop, done);

  builder_.SetInsertPoint(done);
  builder_.CreateRetVoid();
  done->moveAfter(&function_->back());
}

void KernelEmitter::emit_row(Value* row) {
  row_addresses_.clear();
  for (size_t i = 0; i < arguments_.size(); ++i) {
    Value* offset = builder_.CreateMul(row, strides_[i]);
    row_addresses_.push_back(builder_.CreateGEP(element_, arguments_[i], offset));
  }
  reduced_.assign(schedule_.reductions.size(), nullptr);
  for (uint32_t traversal = 0; traversal < schedule_.traversals; ++traversal) {
    if (!kernel_.loops.empty()) {
      return has_reductions(kernel_) ? emit_rolled_row() : emit_columns({});
    }
    emit_row_values(traversal);
    const Work work = work_of(traversal);
    if (work.empty()) continue;
    if (schedule_.reductions.empty()) {
      emit_columns(work);
    } else {
      emit_traversal(work, traversal);
    }
  }
}

void KernelEmitter::emit_row_values(uint32_t traversal) {
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    const Instruction& instruction = kernel_.body[i];
    if (schedule_.traversal[i] != traversal) continue;
    if (instruction.kind == Kind::Store) {
      if (kernel_.arguments[instruction.argument].vector) continue;
      const auto value = row_values_.find(instruction.operands[0]);
      RNNC_CHECK(value != row_values_.end(), "kernel `{}` stores a whole row in one element",
                 kernel_.name);
      // LLVM 19 turns the work behind an extracted element into scalar work, and for AVX-512 cannot
      // select what becomes of some comparisons; a fence, which is no instruction, keeps it whole.
      Value* whole = builder_.CreateArithmeticFence(value->second, vector_);
      builder_.CreateStore(builder_.CreateExtractElement(whole, uint64_t{0}),
                           row_addresses_[instruction.argument]);
    } else if (!instruction.vector) {
      row_values_[i] = row_value(i);
    }
  }
}

Value* KernelEmitter::row_value(uint32_t i) {
  const Instruction& instruction = kernel_.body[i];
  switch (instruction.kind) {
    case Kind::Load:
      return builder_.CreateVectorSplat(
          lanes_, builder_.CreateLoad(element_, row_addresses_[instruction.argument]));
    case Kind::Constant:
      return math_.constant(instruction.value);
    case Kind::Reduce: {
      Value* value = reduced_[schedule_.reduction[i]];
      const bool divide = instruction.op == Op::Mean || instruction.op == Op::Var;
      const auto length = static_cast<double>(kernel_.length);
      return divide ? builder_.CreateFDiv(value, math_.constant(length)) : value;
    }
    default: {
      std::vector<Value*> operands;
      operands.reserve(instruction.operands.size());
      for (const uint32_t operand : instruction.operands) {
        operands.push_back(row_values_.at(operand));
      }
      return math_.apply(instruction.op, operands);
    }
  }
}

KernelEmitter::Work KernelEmitter::work_of(uint32_t traversal) const {
  Work work;
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    if (schedule_.traversal[i] != traversal) continue;
    const Instruction& instruction = kernel_.body[i];
    if (schedule_.scratch_slot[i] != KernelSchedule::kNone) work.kept.push_back(i);
    if (instruction.kind == Kind::Store && kernel_.arguments[instruction.argument].vector) {
      work.stores.push_back(i);
    }
  }
  for (uint32_t i = 0; i < schedule_.reductions.size(); ++i) {
    if (schedule_.reductions[i].traversal == traversal) work.reductions.push_back(i);
  }
  return work;
}

void KernelEmitter::emit_traversal(const Work& work, uint32_t traversal) {
  const auto unroll = static_cast<int64_t>(vectors_at_once(kernel_));
  const int64_t vectors = kernel_.length / lanes_;
  Accumulators sums;
  for (const uint32_t reduction : work.reductions) {
    sums.emplace_back(unroll, identity(schedule_.reductions[reduction].kind));
  }
  int64_t done = 0;
  if (const int64_t iterations = vectors / unroll; iterations >= 2) {
    emit_main_loop(work, traversal, iterations, sums);
    done = iterations * unroll;
  }
  for (; done < vectors; ++done) {
    emit_vector(work, traversal, {builder_.getInt64(done * lanes_), nullptr, {}}, done % unroll,
                sums);
  }
  if (const auto rest = static_cast<unsigned>(kernel_.length % lanes_); rest > 0) {
    std::vector<llvm::Constant*> mask(lanes_);
    for (unsigned lane = 0; lane < lanes_; ++lane) mask[lane] = builder_.getInt1(lane < rest);
    emit_vector(work, traversal,
                {builder_.getInt64(vectors * lanes_), llvm::ConstantVector::get(mask), {}},
                vectors % unroll, sums);
  }
  for (size_t i = 0; i < work.reductions.size(); ++i) {
    const RowReduction::Kind kind = schedule_.reductions[work.reductions[i]].kind;
    Value* total = sums[i][0];
    for (int64_t u = 1; u < unroll; ++u) total = combine(kind, total, sums[i][u]);
    reduced_[work.reductions[i]] = across_lanes(kind, total);
  }
}

void KernelEmitter::emit_columns(const Work& work) {
  const auto whole = static_cast<size_t>(kernel_.length / lanes_);
  Value* index = column_begin_;
  if (const size_t unroll = vectors_at_once(kernel_); unroll > 1 && whole >= unroll) {
    index = emit_vectors(work, index, unroll);
  }
  if (whole >= 1) index = emit_vectors(work, index, 1);
  llvm::LLVMContext& context = module_.getContext();
  auto* tail = llvm::BasicBlock::Create(context, "tail", function_);
  auto* after = llvm::BasicBlock::Create(context, "columns_done", function_);
  builder_.CreateCondBr(builder_.CreateICmpSLT(index, column_end_), tail, after);
  builder_.SetInsertPoint(tail);
  Value* mask = emit_tail_mask(builder_, index, column_end_, lanes_);
  if (kernel_.loops.empty()) {
    Accumulators none;
    emit_vector(work, 0, {index, mask, {}}, 0, none);
  } else {
    emit_rolled(index, mask, 1);
  }
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

/// As many times `unroll` vectors as fit in front of the last column. Gives the first column left.
Value* KernelEmitter::emit_vectors(const Work& work, Value* begin, size_t unroll) {
  const auto step = static_cast<int64_t>(unroll * lanes_);
  return emit_column_loop(builder_, begin, column_end_, step, [&](Value* index) {
    if (!kernel_.loops.empty()) return emit_rolled(index, nullptr, unroll);
    Accumulators none;
    for (size_t u = 0; u < unroll; ++u) {
      Value* place = builder_.CreateAdd(index, builder_.getInt64(static_cast<int64_t>(u * lanes_)));
      emit_vector(work, 0, {place, nullptr, {}}, u, none);
    }
  });
}

void KernelEmitter::emit_main_loop(const Work& work, uint32_t traversal, int64_t iterations,
                                   Accumulators& sums) {
  const auto unroll = static_cast<int64_t>(vectors_at_once(kernel_));
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(module_.getContext(), "vectors", function_);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "rest", function_);
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  llvm::PHINode* index = builder_.CreatePHI(builder_.getInt64Ty(), 2, "index");
  index->addIncoming(builder_.getInt64(0), before);
  std::vector<llvm::PHINode*> gathered;
  for (auto& places : sums) {
    for (Value*& sum : places) {
      llvm::PHINode* phi = builder_.CreatePHI(vector_, 2);
      phi->addIncoming(sum, before);
      gathered.push_back(phi);
      sum = phi;
    }
  }
  for (int64_t u = 0; u < unroll; ++u) {
    emit_vector(work, traversal,
                {builder_.CreateAdd(index, builder_.getInt64(u * lanes_)), nullptr, {}}, u, sums);
  }
  size_t next_phi = 0;
  for (const auto& places : sums) {
    for (Value* sum : places) gathered[next_phi++]->addIncoming(sum, builder_.GetInsertBlock());
  }
  Value* next = builder_.CreateAdd(index, builder_.getInt64(unroll * lanes_));
  index->addIncoming(next, builder_.GetInsertBlock());
  Value* more = builder_.CreateICmpULT(next, builder_.getInt64(iterations * unroll * lanes_));
  builder_.CreateCondBr(more, body, after);
  builder_.SetInsertPoint(after);
}

void KernelEmitter::emit_vector(const Work& work, uint32_t traversal, Place place, size_t unrolled,
                                Accumulators& sums) {
  if (schedule_.reductions.empty()) {
    for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
      if (kernel_.body[i].kind == Kind::Load) value_at(i, traversal, place);
    }
  }
  for (const uint32_t i : work.kept) {
    // Scratch slots are whole vectors long: no mask.
    builder_.CreateStore(value_at(i, traversal, place), scratch_address(i, place.index));
  }
  for (size_t i = 0; i < work.reductions.size(); ++i) {
    const RowReduction& reduction = schedule_.reductions[work.reductions[i]];
    Value* value = value_at(reduction.operand, traversal, place);
    if (reduction.kind == RowReduction::Kind::SumOfSquares) {
      const auto length = static_cast<double>(kernel_.length);
      Value* mean = builder_.CreateFDiv(reduced_[reduction.sum], math_.constant(length));
      Value* difference = builder_.CreateFSub(value, mean);
      value = builder_.CreateFMul(difference, difference);
    }
    if (place.mask != nullptr) {
      value = builder_.CreateSelect(place.mask, value, identity(reduction.kind));
    }
    sums[i][unrolled] = combine(reduction.kind, sums[i][unrolled], value);
  }
  for (const uint32_t i : work.stores) {
    const Instruction& instruction = kernel_.body[i];
    Value* address =
        builder_.CreateInBoundsGEP(element_, row_addresses_[instruction.argument], place.index);
    store(value_at(instruction.operands[0], traversal, place), address, place);
  }
}

/// All of a kernel with loops, at some vectors.
void KernelEmitter::emit_rolled(Value* begin, Value* mask, size_t vectors) {
  std::vector<Place> places;
  for (size_t i = 0; i < vectors; ++i) {
    Value* offset = builder_.getInt64(static_cast<int64_t>(i * lanes_));
    places.push_back({builder_.CreateAdd(begin, offset), mask, {}});
  }
  emit_rolled(std::move(places));
}

/// Of one with reductions all vectors of the row at once.
void KernelEmitter::emit_rolled_row() {
  std::vector<Place> places;
  for (int64_t column = 0; column < kernel_.length; column += lanes_) {
    const int64_t inside = kernel_.length - column;
    std::vector<llvm::Constant*> mask(lanes_);
    for (unsigned lane = 0; lane < lanes_; ++lane) mask[lane] = builder_.getInt1(lane < inside);
    const bool whole = inside >= static_cast<int64_t>(lanes_);
    places.push_back(
        {builder_.getInt64(column), whole ? nullptr : llvm::ConstantVector::get(mask), {}});
  }
  emit_rolled(std::move(places));
}

void KernelEmitter::emit_rolled(std::vector<Place> places) {
  const auto address = [&](const Instruction& instruction, Value* element, size_t place) {
    const int64_t distance = instruction.vector ? kernel_.length : 1;
    Value* offset = instruction.vector ? places[place].index : builder_.getInt64(0);
    if (element != nullptr) {
      offset = builder_.CreateAdd(offset, builder_.CreateMul(element, builder_.getInt64(distance)));
    }
    return builder_.CreateInBoundsGEP(element_, row_addresses_[instruction.argument], offset);
  };
  const llvm::Align align(element_->getScalarSizeInBits() / 8);
  const auto load = [&](uint32_t id, Value* element, size_t place) -> Value* {
    const Instruction& instruction = kernel_.body[id];
    if (column_strides_[instruction.argument] != nullptr) {
      return load_argument(instruction.argument, places[place]);
    }
    Value* from = address(instruction, element, place);
    if (!instruction.vector) {
      return builder_.CreateVectorSplat(lanes_, builder_.CreateLoad(element_, from));
    }
    Value* mask = places[place].mask;
    if (mask == nullptr) return builder_.CreateAlignedLoad(vector_, from, align);
    return builder_.CreateMaskedLoad(vector_, from, align, mask,
                                     llvm::Constant::getNullValue(vector_));
  };
  const auto store_value = [&](uint32_t id, Value* element, Value* value, size_t place) {
    const Instruction& instruction = kernel_.body[id];
    Value* to = address(instruction, element, place);
    if (instruction.vector) {
      store(value, to, places[place]);
    } else {
      Value* whole = builder_.CreateArithmeticFence(value, vector_);
      builder_.CreateStore(builder_.CreateExtractElement(whole, uint64_t{0}), to);
    }
  };
  const auto reduce_row = [&](Op op, const std::vector<Value*>& values) {
    return reduce(op, places, values);
  };
  emit_rolled_body(builder_, math_, vector_, kernel_, places.size(),
                   {load, store_value, reduce_row});
}

/// In the order of the places, so that the bits depend on the row's length alone.
Value* KernelEmitter::reduce(Op op, const std::vector<Place>& places, std::vector<Value*> values) {
  const RowReduction::Kind kind = op == Op::ReduceMin   ? RowReduction::Kind::Min
                                  : op == Op::ReduceMax ? RowReduction::Kind::Max
                                                        : RowReduction::Kind::Sum;
  Value* mask = places.back().mask;
  if (mask != nullptr) values.back() = builder_.CreateSelect(mask, values.back(), identity(kind));
  Value* total = values[0];
  for (size_t i = 1; i < values.size(); ++i) total = combine(kind, total, values[i]);
  total = across_lanes(kind, total);
  if (op != Op::Mean) return total;
  return builder_.CreateFDiv(total, math_.constant(static_cast<double>(kernel_.length)));
}

/// Of a kernel that follows products: what it loads of a later row. A thread's part of an array is
/// a few columns of each row, which the processor does not foresee. What it stores may be another
/// thread's there.
void KernelEmitter::prefetch(uint32_t argument, const Place& place) {
  const int64_t stride = known_strides_[argument].value_or(0);
  if (!follows_products_ || stride == 0 || place.mask != nullptr) return;
  Value* later = builder_.CreateAdd(place.index, builder_.getInt64(kRowsAhead * stride));
  Value* address = builder_.CreateGEP(element_, row_addresses_[argument], later);
  constexpr int kRead = 0;
  constexpr int kAllCaches = 3;
  constexpr int kData = 1;
  builder_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {address->getType()},
      {address, builder_.getInt32(kRead), builder_.getInt32(kAllCaches), builder_.getInt32(kData)});
}

Value* KernelEmitter::value_at(uint32_t i, uint32_t traversal, Place& place) {
  const Instruction& instruction = kernel_.body[i];
  if (!instruction.vector) return row_values_.at(i);
  if (const auto known = place.values.find(i); known != place.values.end()) return known->second;
  Value* value = nullptr;
  if (instruction.kind == Kind::Load) {
    value = load_argument(instruction.argument, place);
  } else if (instruction.kind == Kind::Constant) {
    value = math_.constant(instruction.value);
  } else if (schedule_.traversal[i] < traversal) {
    value = builder_.CreateLoad(vector_, scratch_address(i, place.index));
  } else {
    std::vector<Value*> operands;
    operands.reserve(instruction.operands.size());
    for (const uint32_t operand : instruction.operands) {
      operands.push_back(value_at(operand, traversal, place));
    }
    value = math_.apply(instruction.op, operands);
  }
  place.values[i] = value;
  return value;
}

Value* KernelEmitter::load_argument(uint32_t argument, const Place& place) {
  const llvm::Align align(element_->getScalarSizeInBits() / 8);
  Value* row = row_addresses_[argument];
  Value* offset = place.index;
  if (kernel_.arguments[argument].product) {
    offset = product_offset(argument, place);
  } else {
    prefetch(argument, place);
  }
  Value* address = builder_.CreateInBoundsGEP(element_, row, offset);
  if (place.mask == nullptr) return builder_.CreateAlignedLoad(vector_, address, align);
  return builder_.CreateMaskedLoad(vector_, address, align, place.mask,
                                   llvm::Constant::getNullValue(vector_));
}

/// Of a column of products' results, whose vectors begin at the first column and may be longer than
/// the kernel's.
Value* KernelEmitter::product_offset(uint32_t argument, const Place& place) {
  Value* stride = column_strides_[argument];
  Value* tail_offset = tail_offsets_[argument];
  if (product_lanes_ == lanes_) {
    Value* offset = builder_.CreateMul(place.index, stride);
    return place.mask == nullptr ? offset : builder_.CreateSub(offset, tail_offset);
  }
  Value* lane = builder_.CreateAnd(builder_.CreateSub(place.index, column_begin_),
                                   builder_.getInt64(product_lanes_ - 1));
  Value* vector = builder_.CreateSub(place.index, lane);
  Value* end = builder_.CreateAdd(vector, builder_.getInt64(product_lanes_));
  Value* is_tail = builder_.CreateICmpSGT(end, column_end_);
  Value* offset = builder_.CreateAdd(builder_.CreateMul(vector, stride), lane);
  Value* nearer = builder_.CreateSelect(is_tail, tail_offset, builder_.getInt64(0));
  return builder_.CreateSub(offset, nearer);
}

void KernelEmitter::store(Value* value, Value* address, const Place& place) {
  const llvm::Align align(element_->getScalarSizeInBits() / 8);
  if (place.mask == nullptr) {
    builder_.CreateAlignedStore(value, address, align);
  } else {
    builder_.CreateMaskedStore(value, address, align, place.mask);
  }
}

Value* KernelEmitter::scratch_address(uint32_t i, Value* index) {
  const int64_t start = schedule_.scratch_slot[i] * scratch_slot_elements(kernel_);
  return builder_.CreateInBoundsGEP(element_, scratch_,
                                    builder_.CreateAdd(index, builder_.getInt64(start)));
}

Value* KernelEmitter::identity(RowReduction::Kind kind) const {
  switch (kind) {
    case RowReduction::Kind::Min:
      return llvm::ConstantFP::getInfinity(vector_);
    case RowReduction::Kind::Max:
      return llvm::ConstantFP::getInfinity(vector_, /*Negative=*/true);
    default:
      return math_.constant(0);
  }
}

Value* KernelEmitter::combine(RowReduction::Kind kind, Value* a, Value* b) {
  switch (kind) {
    case RowReduction::Kind::Min:
      return math_.minimum(a, b);
    case RowReduction::Kind::Max:
      return math_.maximum(a, b);
    default:
      return builder_.CreateFAdd(a, b);
  }
}

Value* KernelEmitter::across_lanes(RowReduction::Kind kind, Value* value) {
  std::vector<int> rotated(lanes_);
  for (unsigned shift = lanes_ / 2; shift > 0; shift /= 2) {
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      rotated[lane] = static_cast<int>((lane + shift) % lanes_);
    }
    value = combine(kind, value, builder_.CreateShuffleVector(value, rotated));
  }
  return builder_.CreateVectorSplat(lanes_, builder_.CreateExtractElement(value, uint64_t{0}));
}

}  // namespace

void emit_kernel(llvm::Module& module, const HostTarget& host, const Kernel& kernel,
                 const ArgumentStrides& strides, DType dtype, const std::string& name) {
  KernelEmitter(module, host, kernel, strides, dtype).emit(name);
}

}  // namespace rnnc
