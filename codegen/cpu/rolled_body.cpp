#include "codegen/cpu/rolled_body.h"

#include <algorithm>

#include "ir/plan/kernel_facts.h"

namespace rnnc {
namespace {

using llvm::Value;
using Kind = Instruction::Kind;

constexpr size_t kInstructionsAtOnce = 96;

class BodyEmitter {
 public:
  BodyEmitter(llvm::IRBuilder<>& builder, VectorMath& math, llvm::FixedVectorType* vector,
              const Kernel& kernel, size_t places, const BodyMemory& memory)
      : builder_(builder),
        math_(math),
        vector_(vector),
        kernel_(kernel),
        places_(places),
        memory_(memory),
        loops_(loops_of(kernel)),
        around_(loops_around(kernel)),
        kept_(kept_for_later_loops(kernel)),
        values_(kernel.body.size()),
        arrays_(kernel.body.size(), nullptr) {}

  void emit() {
    for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
      if (kept_[i] == 0) continue;
      const auto places = static_cast<int64_t>(places_of(i));
      arrays_[i] = vectors_in_frame(builder_, vector_, kept_[i] * places);
    }
    emit_part(kNoLoop);
  }

 private:
  /// Of what has one value per row, 1.
  size_t places_of(uint32_t id) const { return kernel_.body[id].vector ? places_ : 1; }

  /// A turn of a loop, or all.
  void emit_part(uint32_t loop) {
    const auto instruction = [this](uint32_t i) {
      if (kernel_.body[i].kind != Kind::Carried) emit_instruction(i);
    };
    visit_loop(kernel_, loop, instruction, [this](uint32_t inner) { emit_loop(inner); });
  }

  void emit_loop(uint32_t id) {
    const Kernel::Loop& loop = kernel_.loops[id];
    llvm::Function* function = builder_.GetInsertBlock()->getParent();
    llvm::BasicBlock* before = builder_.GetInsertBlock();
    auto* body = llvm::BasicBlock::Create(builder_.getContext(), "element", function);
    auto* after = llvm::BasicBlock::Create(builder_.getContext(), "elements_done", function);
    builder_.CreateBr(body);
    builder_.SetInsertPoint(body);
    llvm::PHINode* first = builder_.CreatePHI(builder_.getInt64Ty(), 2, "l");
    first->addIncoming(builder_.getInt64(loop.descending ? loop.count - 1 : 0), before);
    const std::vector<llvm::PHINode*> carried = begin_carried(id, before);
    const int64_t at_once = iterations_at_once(id);
    turns_.push_back(first);
    const int64_t step = loop.descending ? -1 : 1;
    for (int64_t i = 0; i < at_once; ++i) {
      if (i > 0) turns_.back() = builder_.CreateAdd(first, builder_.getInt64(i * step));
      emit_iteration(id);
    }
    llvm::BasicBlock* end = builder_.GetInsertBlock();
    end_carried(id, carried, end);
    Value* next = builder_.CreateAdd(first, builder_.getInt64(at_once * step));
    first->addIncoming(next, end);
    Value* past = builder_.getInt64(loop.descending ? -1 : loop.count);
    builder_.CreateCondBr(builder_.CreateICmpNE(next, past), body, after);
    builder_.SetInsertPoint(after);
    turns_.pop_back();
    elements_.clear();
  }

  /// Of short bodies some, so that the loop itself costs little.
  int64_t iterations_at_once(uint32_t id) const {
    const Kernel::Loop& loop = kernel_.loops[id];
    if (std::ranges::count(around_, id) > 0) return 1;
    size_t instructions = 0;
    for (uint32_t i = loop.begin; i < loop.end; ++i) instructions += places_of(i);
    for (const int64_t count : {4, 2}) {
      if (loop.count % count == 0 &&
          static_cast<size_t>(count) * instructions <= kInstructionsAtOnce)
        return count;
    }
    return 1;
  }

  /// What the loop carries from one turn to the next.
  std::vector<uint32_t> carried_by(uint32_t loop) const {
    std::vector<uint32_t> ids;
    for (uint32_t id = kernel_.loops[loop].begin; id < kernel_.loops[loop].end; ++id) {
      if (loops_[id] == loop && kernel_.body[id].kind == Kind::Carried) ids.push_back(id);
    }
    return ids;
  }

  std::vector<llvm::PHINode*> begin_carried(uint32_t loop, llvm::BasicBlock* before) {
    std::vector<llvm::PHINode*> carried;
    for (const uint32_t id : carried_by(loop)) {
      values_[id].clear();
      for (size_t place = 0; place < places_of(id); ++place) {
        llvm::PHINode* phi = builder_.CreatePHI(vector_, 2);
        phi->addIncoming(value(id, kernel_.body[id].operands[0], place), before);
        values_[id].push_back(phi);
        carried.push_back(phi);
      }
    }
    return carried;
  }

  void end_carried(uint32_t loop, const std::vector<llvm::PHINode*>& carried,
                   llvm::BasicBlock* end) {
    size_t next = 0;
    for (const uint32_t id : carried_by(loop)) {
      for (Value* last : values_[id]) carried[next++]->addIncoming(last, end);
    }
  }

  void emit_iteration(uint32_t loop) {
    elements_.clear();
    emit_part(loop);
    for (const uint32_t id : carried_by(loop)) {
      for (size_t place = 0; place < places_of(id); ++place) {
        values_[id][place] = value(id, kernel_.body[id].operands[1], place);
      }
    }
  }

  void emit_instruction(uint32_t id) {
    const Instruction& instruction = kernel_.body[id];
    values_[id].clear();
    for (size_t place = 0; place < places_of(id); ++place) {
      if (instruction.kind == Kind::Store) {
        memory_.store(id, element_of(id), value(id, instruction.operands[0], place), place);
      } else {
        values_[id].push_back(compute(id, place));
        if (kept_[id] > 0) builder_.CreateStore(values_[id][place], kept_address(id, id, place));
      }
    }
  }

  Value* compute(uint32_t id, size_t place) {
    const Instruction& instruction = kernel_.body[id];
    switch (instruction.kind) {
      case Kind::Load:
        return memory_.load(id, element_of(id), place);
      case Kind::Constant:
        return math_.constant(instruction.value);
      case Kind::Last:
        return value(id, kernel_.body[instruction.operands[0]].operands[1], place);
      case Kind::Reduce: {
        std::vector<Value*> row;
        for (size_t i = 0; i < places_; ++i) row.push_back(value(id, instruction.operands[0], i));
        return memory_.reduce(instruction.op, row);
      }
      default: {
        std::vector<Value*> operands;
        operands.reserve(instruction.operands.size());
        for (const uint32_t operand : instruction.operands) {
          operands.push_back(value(id, operand, place));
        }
        return math_.apply(instruction.op, operands);
      }
    }
  }

  /// What `user` takes for an instruction.
  Value* value(uint32_t user, uint32_t id, size_t place) {
    place = kernel_.body[id].vector ? place : 0;
    const bool around = loops_[user] != kNoLoop && around_[loops_[user]] == loops_[id];
    const bool elsewhere = loops_[id] != kNoLoop && loops_[id] != loops_[user] && !around;
    if (!elsewhere || kernel_.body[user].kind == Kind::Last) return values_[id][place];
    const auto [element, is_new] = elements_.try_emplace({id, place}, nullptr);
    if (is_new) element->second = builder_.CreateLoad(vector_, kept_address(user, id, place));
    return element->second;
  }

  /// Of `count` elements that instruction `id` has or touches in the loops around it, the one that
  /// `user` means: the turn of one loop, or of both.
  Value* turn_of(uint32_t user, uint32_t id, int64_t count) {
    const uint32_t loop = loops_[id];
    if (loop == kNoLoop) return nullptr;
    if (around_[loop] == kNoLoop) {
      const bool inner = around_[loops_[user]] != kNoLoop;
      return turns_[inner && kernel_.loops[loops_[user]].count == count ? 1 : 0];
    }
    const int64_t turns = kernel_.loops[loop].count;
    if (count == turns) return turns_[1];
    return builder_.CreateAdd(builder_.CreateMul(turns_[0], builder_.getInt64(turns)), turns_[1]);
  }

  Value* element_of(uint32_t id) {
    return turn_of(id, id, kernel_.arguments[kernel_.body[id].argument].count);
  }

  Value* kept_address(uint32_t user, uint32_t id, size_t place) {
    const size_t places = places_of(id);
    Value* turn = turn_of(user, id, kept_[id]);
    Value* index = builder_.CreateAdd(builder_.CreateMul(turn, builder_.getInt64(places)),
                                      builder_.getInt64(place));
    return builder_.CreateInBoundsGEP(vector_, arrays_[id], index);
  }

  llvm::IRBuilder<>& builder_;
  VectorMath& math_;
  llvm::FixedVectorType* vector_;
  const Kernel& kernel_;
  const size_t places_;
  const BodyMemory& memory_;
  const std::vector<uint32_t> loops_;
  const std::vector<uint32_t> around_;  // by loop
  const std::vector<int64_t> kept_;
  std::vector<std::vector<Value*>> values_;  // by instruction and place
  std::vector<Value*> arrays_;               // by instruction that is kept
  // Of the loops that are emitted:
  std::vector<Value*> turns_;                               // the outer one's first
  std::map<std::pair<uint32_t, size_t>, Value*> elements_;  // of other loops' arrays
};

}  // namespace

void emit_rolled_body(llvm::IRBuilder<>& builder, VectorMath& math, llvm::FixedVectorType* vector,
                      const Kernel& kernel, size_t places, const BodyMemory& memory) {
  BodyEmitter(builder, math, vector, kernel, places, memory).emit();
}

llvm::Value* vectors_in_frame(llvm::IRBuilder<>& builder, llvm::FixedVectorType* vector,
                              int64_t count) {
  llvm::BasicBlock& entry = builder.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> frame(&entry, entry.begin());
  return frame.CreateAlloca(vector, frame.getInt64(static_cast<uint64_t>(count)));
}

}  // namespace rnnc
