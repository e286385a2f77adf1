// Algorithm:
// 1. A loop over the columns: several vectors at once, then one, then a masked one.
// 2. Before the steps: the states, and what is the same at each step.
// 3. A loop over the steps, whose states are values that go round in registers. At each, what the
//    step loads comes before what it stores, so that a result may take the place of an operand.
//    Addresses go on by the argument's distance from one step to the next.
// 4. Behind the steps: the states, and what the steps add up, which goes round as well.
//
// Of a kernel that has loops of its own arrays of states lie in the function's frame, and a step
// runs the kernel's body in order (codegen/cpu/rolled_body.h).
//
// The functions of a scan's rounds differ in what goes round: the states of some rounds only, the
// composed map of one, and in that they store nothing at a step.
#include "codegen/cpu/emit_loop.h"

#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "codegen/cpu/column_loop.h"
#include "codegen/cpu/emit_round_map.h"
#include "codegen/cpu/kernel_cost.h"
#include "codegen/cpu/rolled_body.h"
#include "codegen/cpu/vector_math.h"

namespace rnnc {
namespace {

using llvm::Value;
using Kind = Instruction::Kind;

/// What a function does of a loop's steps.
struct LoopPart {
  std::string name;
  std::vector<size_t> carries;       // that go round
  bool stores = true;                // at each step
  const ScanRound* round = nullptr;  // whose maps it composes, instead of storing the carries
};

class LoopEmitter {
 public:
  LoopEmitter(llvm::Module& module, const HostTarget& host, const CpuLoop& loop, DType dtype,
              LoopPart part)
      : module_(module),
        loop_(loop),
        part_(std::move(part)),
        kernel_(*loop.kernel),
        builder_(module.getContext()),
        element_(dtype == DType::f64 ? builder_.getDoubleTy() : builder_.getFloatTy()),
        lanes_(host.vectors.elementwise / element_->getScalarSizeInBits()),
        vector_(llvm::FixedVectorType::get(element_, lanes_)),
        math_(builder_, host, vector_) {
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    builder_.setFastMathFlags(flags);
    find_work();
  }

  void emit();

 private:
  /// A vector of columns.
  struct Place {
    Value* index = nullptr;             // the first column
    Value* mask = nullptr;              // null: all lanes
    std::map<uint32_t, Value*> fixed;   // per instruction: the same at each step
    std::map<uint32_t, Value*> values;  // at the current step
    std::vector<Value*> states;         // per carry of the part
    std::vector<Value*> totals;         // per store that is added up
    std::vector<Value*> map;            // of its round
  };

  void find_work();
  Value* emit_columns(Value* begin, size_t count);
  void emit_tail(Value* begin);
  void emit_steps(std::vector<Place>& places);
  void begin(Place& place);
  void step(Place& place);
  void rolled_step(std::vector<Place>& places);
  void move_arrays(std::vector<Place>& places, bool load_them);
  Value* state_element(size_t carry, Value* element, size_t place, size_t places);
  Value* element_address(uint32_t argument, Value* element);
  Value* value_at(uint32_t instruction, Place& place);
  Value* load(uint32_t argument, const Place& place, Value* element = nullptr);
  void store(uint32_t argument, Value* value, const Place& place, Value* element = nullptr);
  void store_vector(Value* value, Value* address, const Place& place);
  void end(const Place& place);

  bool is_vector(uint32_t argument) const { return kernel_.arguments[argument].vector; }
  bool is_array(size_t carry) const {
    return kernel_.arguments[(*loop_.carries)[part_.carries[carry]].load].count > 1;
  }
  bool is_carried(uint32_t argument) const;
  bool is_total(uint32_t argument) const;
  std::optional<size_t> carry_loaded(uint32_t argument) const;
  std::vector<Value**> going_round(std::vector<Place>& places);

  llvm::Module& module_;
  const CpuLoop& loop_;
  const LoopPart part_;
  const Kernel& kernel_;
  llvm::IRBuilder<> builder_;
  llvm::Type* element_;
  unsigned lanes_;
  llvm::FixedVectorType* vector_;
  VectorMath math_;

  std::vector<uint32_t> next_;    // per carry of the part: the instruction of its next value
  std::vector<uint32_t> stores_;  // instructions, of each step
  std::vector<uint32_t> totals_;  // likewise, of what is added up
  llvm::Function* function_ = nullptr;
  Value* steps_ = nullptr;
  Value* column_end_ = nullptr;
  std::vector<Value*> arguments_, strides_;  // of the call
  std::vector<Value*> addresses_;            // at the current step
  std::vector<Value*> arrays_;               // per carry of the part: of states, in the frame
};

void LoopEmitter::find_work() {
  next_.resize(part_.carries.size());
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    const Instruction& instruction = kernel_.body[i];
    if (instruction.kind != Kind::Store) continue;
    const auto carry = std::ranges::find(*loop_.carries, instruction.argument, &LoopCarry::store);
    if (carry == loop_.carries->end()) {
      if (part_.stores) (is_total(instruction.argument) ? totals_ : stores_).push_back(i);
      continue;
    }
    const auto number = static_cast<size_t>(carry - loop_.carries->begin());
    const auto place = std::ranges::find(part_.carries, number);
    if (place == part_.carries.end()) continue;
    next_[static_cast<size_t>(place - part_.carries.begin())] = instruction.operands[0];
  }
}

/// By any part of the loop.
bool LoopEmitter::is_carried(uint32_t argument) const {
  return std::ranges::find(*loop_.carries, argument, &LoopCarry::load) != loop_.carries->end();
}

bool LoopEmitter::is_total(uint32_t argument) const {
  return loop_.totals != nullptr && std::ranges::count(*loop_.totals, argument) > 0;
}

/// The place of its state among those that go round.
std::optional<size_t> LoopEmitter::carry_loaded(uint32_t argument) const {
  for (size_t i = 0; i < part_.carries.size(); ++i) {
    if ((*loop_.carries)[part_.carries[i]].load == argument) return i;
  }
  return std::nullopt;
}

void LoopEmitter::emit() {
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* integer = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(builder_.getVoidTy(),
                                       {pointer, pointer, integer, integer, integer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, part_.name, module_);
  function_->setDoesNotThrow();
  steps_ = function_->getArg(2);
  Value* column = function_->getArg(3);
  column_end_ = function_->getArg(4);
  builder_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
  for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
    const auto entry = [&](llvm::Type* of, unsigned argument) {
      return builder_.CreateLoad(
          of, builder_.CreateConstInBoundsGEP1_64(of, function_->getArg(argument), i));
    };
    arguments_.push_back(entry(pointer, 0));
    strides_.push_back(entry(integer, 1));
  }
  const auto whole = static_cast<size_t>(kernel_.length / lanes_);
  if (const size_t count = vectors_at_once(kernel_, *loop_.carries); count > 1 && whole >= count) {
    column = emit_columns(column, count);
  }
  if (whole >= 1) column = emit_columns(column, 1);
  emit_tail(column);
  builder_.CreateRetVoid();
}

/// As many times `count` vectors as fit in front of the last column. Gives the first column left.
Value* LoopEmitter::emit_columns(Value* begin, size_t count) {
  const auto step = static_cast<int64_t>(count * lanes_);
  return emit_column_loop(builder_, begin, column_end_, step, [&](Value* index) {
    std::vector<Place> places(count);
    for (size_t i = 0; i < count; ++i) {
      places[i].index =
          builder_.CreateAdd(index, builder_.getInt64(static_cast<int64_t>(i * lanes_)));
    }
    emit_steps(places);
  });
}

/// The columns that are less than a vector.
void LoopEmitter::emit_tail(Value* begin) {
  llvm::LLVMContext& context = module_.getContext();
  auto* tail = llvm::BasicBlock::Create(context, "tail", function_);
  auto* done = llvm::BasicBlock::Create(context, "done", function_);
  builder_.CreateCondBr(builder_.CreateICmpSLT(begin, column_end_), tail, done);
  builder_.SetInsertPoint(tail);
  std::vector<Place> places(1);
  places[0].index = begin;
  places[0].mask = emit_tail_mask(builder_, begin, column_end_, lanes_);
  emit_steps(places);
  builder_.CreateBr(done);
  builder_.SetInsertPoint(done);
}

/// What a step takes from the one before it.
std::vector<Value**> LoopEmitter::going_round(std::vector<Place>& places) {
  std::vector<Value**> values;
  for (Place& place : places) {
    for (Value*& state : place.states) {
      if (state != nullptr) values.push_back(&state);
    }
    for (Value*& value : place.map) values.push_back(&value);
    for (Value*& value : place.totals) values.push_back(&value);
  }
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (loop_.moves[i]) values.push_back(&addresses_[i]);
  }
  return values;
}

void LoopEmitter::emit_steps(std::vector<Place>& places) {
  addresses_ = arguments_;
  for (Place& place : places) begin(place);
  move_arrays(places, /*load=*/true);
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(module_.getContext(), "step", function_);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "steps_done", function_);
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  llvm::PHINode* left = builder_.CreatePHI(builder_.getInt64Ty(), 2, "left");
  left->addIncoming(steps_, before);
  const std::vector<Value**> round = going_round(places);
  std::vector<llvm::PHINode*> phis;
  for (Value** value : round) {
    llvm::PHINode* phi = builder_.CreatePHI((*value)->getType(), 2);
    phi->addIncoming(*value, before);
    phis.push_back(phi);
    *value = phi;
  }
  if (kernel_.loops.empty()) {
    for (Place& place : places) step(place);
  } else {
    rolled_step(places);
  }
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (loop_.moves[i]) addresses_[i] = builder_.CreateGEP(element_, addresses_[i], strides_[i]);
  }
  Value* next = builder_.CreateSub(left, builder_.getInt64(1));
  left->addIncoming(next, builder_.GetInsertBlock());
  for (size_t i = 0; i < round.size(); ++i) {
    phis[i]->addIncoming(*round[i], builder_.GetInsertBlock());
  }
  builder_.CreateCondBr(builder_.CreateICmpSGT(next, builder_.getInt64(0)), body, after);
  builder_.SetInsertPoint(after);
  for (const Place& place : places) end(place);
  move_arrays(places, /*load=*/false);
}

void LoopEmitter::begin(Place& place) {
  for (size_t i = 0; i < part_.carries.size(); ++i) {
    const uint32_t argument = (*loop_.carries)[part_.carries[i]].load;
    place.states.push_back(is_array(i) ? nullptr : load(argument, place));
  }
  if (part_.round != nullptr) place.map = RoundMap(builder_, math_, *part_.round).identity();
  place.totals.assign(totals_.size(), math_.constant(0));
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    const Instruction& instruction = kernel_.body[i];
    if (instruction.kind != Kind::Load || loop_.moves[instruction.argument]) continue;
    if (kernel_.arguments[instruction.argument].count > 1) continue;
    if (!is_carried(instruction.argument)) place.fixed[i] = load(instruction.argument, place);
  }
}

void LoopEmitter::step(Place& place) {
  place.values = place.fixed;
  for (uint32_t i = 0; i < kernel_.body.size(); ++i) {
    const Instruction& instruction = kernel_.body[i];
    if (instruction.kind != Kind::Load) continue;
    if (!is_carried(instruction.argument) || carry_loaded(instruction.argument)) value_at(i, place);
  }
  if (part_.round != nullptr) {
    const auto value = [&](uint32_t instruction) { return value_at(instruction, place); };
    // In place: these values go round.
    std::ranges::copy(RoundMap(builder_, math_, *part_.round).then(place.map, value),
                      place.map.begin());
  }
  std::vector<Value*> next;
  for (const uint32_t instruction : next_) next.push_back(value_at(instruction, place));
  for (const uint32_t i : stores_) {
    store(kernel_.body[i].argument, value_at(kernel_.body[i].operands[0], place), place);
  }
  for (size_t i = 0; i < totals_.size(); ++i) {
    Value* term = value_at(kernel_.body[totals_[i]].operands[0], place);
    place.totals[i] = builder_.CreateFAdd(place.totals[i], term);
  }
  std::ranges::copy(next, place.states.begin());
}

void LoopEmitter::rolled_step(std::vector<Place>& places) {
  std::vector<std::vector<Value*>> next;
  for (const Place& place : places) next.push_back(place.states);
  const auto carry_stored = [&](uint32_t argument) {
    const auto carry = std::ranges::find(*loop_.carries, argument, &LoopCarry::store);
    return static_cast<size_t>(carry - loop_.carries->begin());
  };
  const auto load_value = [&](uint32_t id, Value* element, size_t place) -> Value* {
    const uint32_t argument = kernel_.body[id].argument;
    if (const std::optional<size_t> carry = carry_loaded(argument)) {
      if (!is_array(*carry)) return places[place].states[*carry];
      return builder_.CreateLoad(vector_, state_element(*carry, element, place, places.size()));
    }
    const auto fixed = places[place].fixed.find(id);
    return fixed != places[place].fixed.end() ? fixed->second
                                              : load(argument, places[place], element);
  };
  const auto store_value = [&](uint32_t id, Value* element, Value* value, size_t place) {
    const uint32_t argument = kernel_.body[id].argument;
    const size_t carry = carry_stored(argument);
    if (carry == loop_.carries->size()) {
      store(argument, value, places[place], element);
    } else if (is_array(carry)) {
      builder_.CreateStore(value, state_element(carry, element, place, places.size()));
    } else {
      next[place][carry] = value;
    }
  };
  emit_rolled_body(builder_, math_, vector_, kernel_, places.size(), {load_value, store_value});
  // In place: these values go round.
  for (size_t i = 0; i < places.size(); ++i) std::ranges::copy(next[i], places[i].states.begin());
}

/// Where an element of an array of states lies in the frame.
Value* LoopEmitter::state_element(size_t carry, Value* element, size_t place, size_t places) {
  Value* index = builder_.CreateAdd(builder_.CreateMul(element, builder_.getInt64(places)),
                                    builder_.getInt64(place));
  return builder_.CreateInBoundsGEP(vector_, arrays_[carry], index);
}

/// Arrays of states, from memory before the first step or back behind the last.
void LoopEmitter::move_arrays(std::vector<Place>& places, bool load_them) {
  arrays_.resize(part_.carries.size(), nullptr);
  for (size_t i = 0; i < part_.carries.size(); ++i) {
    if (!is_array(i)) continue;
    const LoopCarry& carry = (*loop_.carries)[part_.carries[i]];
    const int64_t count = kernel_.arguments[carry.load].count;
    if (arrays_[i] == nullptr) {  // with room for as many vectors as there ever are
      const auto most = static_cast<int64_t>(vectors_at_once(kernel_));
      arrays_[i] = vectors_in_frame(builder_, vector_, count * most);
    }
    emit_column_loop(builder_, builder_.getInt64(0), builder_.getInt64(count), 1, [&](Value* l) {
      for (size_t place = 0; place < places.size(); ++place) {
        Value* address = state_element(i, l, place, places.size());
        if (load_them) {
          builder_.CreateStore(load(carry.load, places[place], l), address);
        } else {
          store(carry.store, builder_.CreateLoad(vector_, address), places[place], l);
        }
      }
    });
  }
}

Value* LoopEmitter::value_at(uint32_t i, Place& place) {
  const Instruction& instruction = kernel_.body[i];
  if (const auto known = place.values.find(i); known != place.values.end()) return known->second;
  Value* value = nullptr;
  if (instruction.kind == Kind::Load) {
    const std::optional<size_t> carry = carry_loaded(instruction.argument);
    value = carry ? place.states[*carry] : load(instruction.argument, place);
  } else if (instruction.kind == Kind::Constant) {
    value = math_.constant(instruction.value);
  } else {
    std::vector<Value*> operands;
    operands.reserve(instruction.operands.size());
    for (const uint32_t operand : instruction.operands)
      operands.push_back(value_at(operand, place));
    value = math_.apply(instruction.op, operands);
  }
  place.values[i] = value;
  return value;
}

/// At the current step, of an element of an array.
Value* LoopEmitter::element_address(uint32_t argument, Value* element) {
  if (element == nullptr) return addresses_[argument];
  Value* distance = builder_.getInt64(is_vector(argument) ? kernel_.length : 1);
  return builder_.CreateInBoundsGEP(element_, addresses_[argument],
                                    builder_.CreateMul(element, distance));
}

Value* LoopEmitter::load(uint32_t argument, const Place& place, Value* element) {
  Value* from = element_address(argument, element);
  if (!is_vector(argument)) {
    return builder_.CreateVectorSplat(lanes_, builder_.CreateLoad(element_, from));
  }
  const llvm::Align align(element_->getScalarSizeInBits() / 8);
  Value* address = builder_.CreateInBoundsGEP(element_, from, place.index);
  if (place.mask == nullptr) return builder_.CreateAlignedLoad(vector_, address, align);
  return builder_.CreateMaskedLoad(vector_, address, align, place.mask,
                                   llvm::Constant::getNullValue(vector_));
}

void LoopEmitter::store(uint32_t argument, Value* value, const Place& place, Value* element) {
  Value* to = element_address(argument, element);
  if (is_vector(argument)) {
    store_vector(value, builder_.CreateInBoundsGEP(element_, to, place.index), place);
    return;
  }
  // As in emit_kernel.cpp: the fence keeps the work behind the element in vectors.
  Value* whole = builder_.CreateArithmeticFence(value, vector_);
  builder_.CreateStore(builder_.CreateExtractElement(whole, uint64_t{0}), to);
}

void LoopEmitter::store_vector(Value* value, Value* address, const Place& place) {
  const llvm::Align align(element_->getScalarSizeInBits() / 8);
  if (place.mask == nullptr) {
    builder_.CreateAlignedStore(value, address, align);
  } else {
    builder_.CreateMaskedStore(value, address, align, place.mask);
  }
}

void LoopEmitter::end(const Place& place) {
  if (part_.round == nullptr) {
    for (size_t i = 0; i < place.states.size(); ++i) {
      if (is_array(i)) continue;
      store((*loop_.carries)[part_.carries[i]].store, place.states[i], place);
    }
    for (size_t i = 0; i < totals_.size(); ++i) {
      store(kernel_.body[totals_[i]].argument, place.totals[i], place);
    }
    return;
  }
  for (size_t i = 0; i < place.map.size(); ++i) {
    Value* words = builder_.CreateLoad(
        builder_.getPtrTy(), builder_.CreateConstInBoundsGEP1_64(
                                 builder_.getPtrTy(), function_->getArg(0), addresses_.size() + i));
    store_vector(place.map[i], builder_.CreateInBoundsGEP(element_, words, place.index), place);
  }
}

}  // namespace

void emit_loop(llvm::Module& module, const HostTarget& host, const CpuLoop& loop, DType dtype) {
  const auto emit = [&](LoopPart part) {
    LoopEmitter(module, host, loop, dtype, std::move(part)).emit();
  };
  std::vector<size_t> all(loop.carries->size());
  std::iota(all.begin(), all.end(), size_t{0});
  emit({.name = loop_name(loop.stage), .carries = std::move(all)});
  if (loop.rounds == nullptr) return;
  std::vector<size_t> known;
  for (size_t i = 0; i < loop.rounds->size(); ++i) {
    const ScanRound& round = (*loop.rounds)[i];
    emit({.name = round_map_name(loop.stage, i),
          .carries = known,
          .stores = false,
          .round = &round});
    known.insert(known.end(), round.states.begin(), round.states.end());
    emit({.name = round_states_name(loop.stage, i), .carries = known, .stores = false});
  }
}

}  // namespace rnnc
