// A tile keeps rows x vectors sums in registers. For every k it loads the panel's vectors once and
// multiplies them with one broadcast element of each row: one vector after the other, where the
// registers have room for the elements, else one row after the other. Panels are contiguous in that
// order, so the weights stream through once per tile whatever their shape. What comes next is prefetched on
// the way, a line for every k: a few tiles bring a panel nearer while they compute.
//
// Why not a library: on one core of an AMD EPYC (Zen 4, AVX-512), f32, weights packed once,
// microseconds, tiles / OpenBLAS 0.3.21 / oneDNN 2.6.3 (which pack at every call):
//
//     rows        1024 x 256         4096 x 1024         1200 x 300          7 x 3
//        1     11 /   13 /   12    204 /  283 /  299    15 /  19 /  22    0.04 / 0.04 / 0.13
//        3     14 /   80 /   16    228 / 3190 /  337    19 / 110 /  24    0.05 / 0.08 / 0.15
//       16     72 /  128 /  113   1169 / 3986 / 3863   101 / 168 / 238    0.10 / 0.12 / 0.32
//       64    286 /  361 /  329   4901 / 7922 / 7367   399 / 480 / 534    0.27 / 0.28 / 0.39
//     1024   4817 / 5436 / 4839    80k /  89k /  83k   6.7k/7.2k / 6.6k    4.0 /  3.4 /  1.9
//
// But for the smallest, that is 91 to 99 % of the core's peak of 118 GFLOP/s from three rows on,
// and the second level cache's or memory's speed for one. A library's bits may also depend on its
// number of rows.
#include "codegen/cpu/emit_gemm.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <vector>

#include "codegen/cpu/vector_math.h"

namespace rnnc {
namespace {

using llvm::Value;

constexpr int kCacheLine = 64;
constexpr int kMostTileRows = 8;  // more would be no faster

/// Registers for what no sum is in: a vector of weights or an element and, without FMA, a product.
int other_registers(const HostTarget& host) {
  return host.fma ? 1 : 2;
}

bool has_room_for_elements(const HostTarget& host, const GemmTile& tile) {
  return tile.rows * (tile.vectors + 1) + other_registers(host) <=
         static_cast<int>(host.vector_registers);
}

bool has_room_for_weights(const HostTarget& host, const GemmTile& tile) {
  return (tile.rows + 1) * tile.vectors + other_registers(host) <=
         static_cast<int>(host.vector_registers);
}

class TileEmitter {
 public:
  TileEmitter(llvm::Module& module, const HostTarget& host, DType dtype, const GemmTile& tile)
      : module_(module),
        builder_(module.getContext()),
        element_(dtype == DType::f64 ? builder_.getDoubleTy() : builder_.getFloatTy()),
        lanes_(static_cast<unsigned>(gemm_lanes(host, dtype))),
        vector_(llvm::FixedVectorType::get(element_, lanes_)),
        align_(element_->getScalarSizeInBits() / 8),
        math_(builder_, host, vector_),
        rows_(tile.rows),
        vectors_(tile.vectors),
        is_avx512_(host.avx512),
        is_by_rows_(!has_room_for_elements(host, tile)),
        is_full_(host.x86 &&
                 (rows_ + 1) * (vectors_ + 1) > static_cast<int>(host.vector_registers)) {}

  void emit();

 private:
  void emit_sums();
  void add_term(Value* i);
  Value* load_element(int row, Value* i);
  Value* load_weights(Value* panel_row, int vector);
  Value* load_after(Value* value);
  void prefetch_line(Value* index);
  void emit_stores(llvm::BasicBlock* done);
  void store_partial(bool add, llvm::BasicBlock* done);
  void store_vector(int vector, bool add, Value* mask);
  Value* out_address(int row, int vector);

  llvm::Module& module_;
  llvm::IRBuilder<> builder_;
  llvm::Type* element_;
  unsigned lanes_;
  llvm::FixedVectorType* vector_;
  llvm::Align align_;
  VectorMath math_;
  int rows_;
  int vectors_;
  bool is_avx512_;
  bool is_by_rows_;  // a term: of one row after the other; else of one vector after the other
  bool is_full_;     // sums, elements and all vectors of weights are more than there are registers

  llvm::Function* function_ = nullptr;
  std::vector<Value*> left_rows_;
  std::vector<llvm::PHINode*> sums_;  // [row][vector]
  std::vector<Value*> totals_;
};

void TileEmitter::emit() {
  llvm::Type* pointer = builder_.getPtrTy();
  llvm::Type* integer = builder_.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      builder_.getVoidTy(),
      {pointer, integer, pointer, pointer, integer, integer, integer, integer, pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                     gemm_tile_name({rows_, vectors_}), module_);
  function_->setDoesNotThrow();
  builder_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function_));
  emit_sums();
  auto* done = llvm::BasicBlock::Create(module_.getContext(), "done", function_);
  emit_stores(done);
  builder_.SetInsertPoint(done);
  builder_.CreateRetVoid();
  done->moveAfter(&function_->back());
}

void TileEmitter::emit_sums() {
  Value* left = function_->getArg(0);
  Value* left_stride = function_->getArg(1);
  Value* k = function_->getArg(5);
  for (int row = 0; row < rows_; ++row) {
    Value* offset = builder_.CreateMul(left_stride, builder_.getInt64(row));
    left_rows_.push_back(builder_.CreateGEP(element_, left, offset));
  }
  llvm::BasicBlock* entry = builder_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(module_.getContext(), "k", function_);
  auto* after = llvm::BasicBlock::Create(module_.getContext(), "store", function_);
  builder_.CreateBr(loop);

  builder_.SetInsertPoint(loop);
  llvm::PHINode* i = builder_.CreatePHI(builder_.getInt64Ty(), 2, "i");
  i->addIncoming(builder_.getInt64(0), entry);
  for (int n = 0; n < rows_ * vectors_; ++n) {
    sums_.push_back(builder_.CreatePHI(vector_, 2));
    sums_.back()->addIncoming(math_.constant(0), entry);
  }
  add_term(i);
  for (size_t n = 0; n < sums_.size(); ++n) sums_[n]->addIncoming(totals_[n], loop);
  Value* next = builder_.CreateAdd(i, builder_.getInt64(1));
  i->addIncoming(next, loop);
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, k), loop, after);
  builder_.SetInsertPoint(after);
}

void TileEmitter::add_term(Value* i) {
  std::vector<Value*> elements;
  if (!is_by_rows_) {
    for (int row = 0; row < rows_; ++row) elements.push_back(load_element(row, i));
  }
  // One row alone waits for memory, whose speed the processor's own prefetching reaches.
  if (rows_ > 1) prefetch_line(i);
  Value* offset = builder_.CreateMul(i, builder_.getInt64(int64_t{vectors_} * lanes_));
  Value* panel_row = builder_.CreateInBoundsGEP(element_, function_->getArg(2), offset);
  totals_.resize(sums_.size());
  const auto add = [&](int row, int vector, Value* element, Value* weights) {
    const int n = row * vectors_ + vector;
    totals_[n] = math_.multiply_add(element, weights, sums_[n]);
  };
  const auto end_loads = [&](int row, int vector) {
    Value*& last = totals_[row * vectors_ + vector];
    if (is_full_) last = load_after(last);
  };
  if (!is_by_rows_) {
    for (int v = 0; v < vectors_; ++v) {
      Value* weights = load_weights(panel_row, v);
      for (int row = 0; row < rows_; ++row) add(row, v, elements[row], weights);
      if (v + 1 < vectors_) end_loads(rows_ - 1, v);
    }
    return;
  }
  std::vector<Value*> weights;
  for (int v = 0; v < vectors_; ++v) weights.push_back(load_weights(panel_row, v));
  for (int row = 0; row < rows_; ++row) {
    Value* element = load_element(row, i);
    for (int v = 0; v < vectors_; ++v) add(row, v, element, weights[v]);
    if (row + 1 < rows_) end_loads(row, vectors_ - 1);
  }
}

Value* TileEmitter::load_element(int row, Value* i) {
  Value* address = builder_.CreateInBoundsGEP(element_, left_rows_[row], i);
  return builder_.CreateVectorSplat(lanes_, builder_.CreateAlignedLoad(element_, address, align_));
}

Value* TileEmitter::load_weights(Value* panel_row, int vector) {
  return builder_.CreateAlignedLoad(
      vector_, builder_.CreateConstInBoundsGEP1_64(element_, panel_row, vector * lanes_),
      llvm::Align(vector_->getPrimitiveSizeInBits().getFixedValue() / 8));
}

/// The value, behind which loads stay that follow. LLVM would load all of them first, for which a
/// full tile has no registers, and move half of the sums about in each turn of the loop.
Value* TileEmitter::load_after(Value* value) {
  auto* type = llvm::FunctionType::get(vector_, {vector_}, false);
  const char* place = is_avx512_ ? "=v,0,~{memory}" : "=x,0,~{memory}";
  return builder_.CreateCall(llvm::InlineAsm::get(type, "", place, true), {value});
}

void TileEmitter::prefetch_line(Value* index) {
  Value* line =
      builder_.CreateInBoundsGEP(builder_.getInt8Ty(), function_->getArg(8),
                                 builder_.CreateMul(index, builder_.getInt64(kCacheLine)));
  builder_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {line->getType()},
      {line, builder_.getInt32(0), builder_.getInt32(2), builder_.getInt32(1)});
}

Value* TileEmitter::out_address(int row, int vector) {
  Value* offset = builder_.CreateMul(function_->getArg(4), builder_.getInt64(row));
  Value* address = builder_.CreateGEP(element_, function_->getArg(3), offset);
  return builder_.CreateConstInBoundsGEP1_64(element_, address, vector * lanes_);
}

void TileEmitter::emit_stores(llvm::BasicBlock* done) {
  llvm::LLVMContext& context = module_.getContext();
  auto* replace = llvm::BasicBlock::Create(context, "replace", function_);
  auto* add = llvm::BasicBlock::Create(context, "add", function_);
  Value* is_add = builder_.CreateICmpNE(function_->getArg(7), builder_.getInt64(0));
  builder_.CreateCondBr(is_add, add, replace);
  for (auto* block : {replace, add}) {
    auto* whole = llvm::BasicBlock::Create(context, "whole", function_);
    auto* partial = llvm::BasicBlock::Create(context, "partial", function_);
    builder_.SetInsertPoint(block);
    Value* panel_columns = builder_.getInt64(int64_t{vectors_} * lanes_);
    Value* is_whole = builder_.CreateICmpSGE(function_->getArg(6), panel_columns);
    builder_.CreateCondBr(is_whole, whole, partial);
    builder_.SetInsertPoint(whole);
    for (int v = 0; v < vectors_; ++v) store_vector(v, block == add, nullptr);
    builder_.CreateBr(done);
    builder_.SetInsertPoint(partial);
    store_partial(block == add, done);
  }
}

/// The first `columns` of the panel: whole vectors past them are not touched.
void TileEmitter::store_partial(bool add, llvm::BasicBlock* done) {
  Value* columns = function_->getArg(6);
  std::vector<llvm::Constant*> lane_numbers(lanes_);
  for (unsigned lane = 0; lane < lanes_; ++lane) lane_numbers[lane] = builder_.getInt32(lane);
  for (int v = 0; v < vectors_; ++v) {
    Value* rest = builder_.CreateSub(columns, builder_.getInt64(v * lanes_));
    Value* any = builder_.CreateICmpSGT(rest, builder_.getInt64(0));
    auto* block = llvm::BasicBlock::Create(module_.getContext(), "vector", function_);
    builder_.CreateCondBr(any, block, done);
    builder_.SetInsertPoint(block);
    Value* spread =
        builder_.CreateVectorSplat(lanes_, builder_.CreateTrunc(rest, builder_.getInt32Ty()));
    Value* mask = builder_.CreateICmpSLT(llvm::ConstantVector::get(lane_numbers), spread);
    store_vector(v, add, mask);
  }
  builder_.CreateBr(done);
}

void TileEmitter::store_vector(int vector, bool add, Value* mask) {
  for (int row = 0; row < rows_; ++row) {
    Value* address = out_address(row, vector);
    Value* total = totals_[row * vectors_ + vector];
    if (mask == nullptr) {
      if (add) {
        total = builder_.CreateFAdd(builder_.CreateAlignedLoad(vector_, address, align_), total);
      }
      builder_.CreateAlignedStore(total, address, align_);
      continue;
    }
    if (add) {
      Value* before = builder_.CreateMaskedLoad(vector_, address, align_, mask,
                                                llvm::Constant::getNullValue(vector_));
      total = builder_.CreateFAdd(before, total);
    }
    builder_.CreateMaskedStore(total, address, align_, mask);
  }
}

}  // namespace

int most_tile_rows(const HostTarget& host, int vectors) {
  int rows = kMostTileRows;
  const auto fits = [&] {
    const GemmTile tile = {.rows = rows, .vectors = vectors};
    return has_room_for_elements(host, tile) || has_room_for_weights(host, tile);
  };
  while (!fits()) --rows;
  return rows;
}

int64_t gemm_lanes(const HostTarget& host, DType dtype) {
  return static_cast<int64_t>(host.vectors.products / (8 * size_of(dtype)));
}

int64_t gemm_block_k(const HostTarget& host) {
  // A block of a panel passes by for each tile of rows. With two 512-bit multiply-adds a cycle it
  // should come from the first level cache then; one such, as Zen 4 has, leaves time to fetch it
  // from the second, and to add results up less often. Long sums lose less to rounding in blocks.
  const bool one_unit = host.cpu == "znver4" || host.vectors.products < 512;
  return one_unit ? 256 : 128;
}

std::string gemm_tile_name(const GemmTile& tile) {
  return fmt::format("gemm_tile_{}x{}", tile.rows, tile.vectors);
}

void emit_gemm_tiles(llvm::Module& module, const HostTarget& host, DType dtype) {
  for (int vectors = 1; vectors <= kMostPanelVectors; ++vectors) {
    for (int rows = 1; rows <= most_tile_rows(host, vectors); ++rows) {
      TileEmitter(module, host, dtype, {rows, vectors}).emit();
    }
  }
}

}  // namespace rnnc
