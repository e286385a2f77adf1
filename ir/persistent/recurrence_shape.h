/// What of a RecurrenceLaunch decides what its tiles need (ir/persistent/recurrence_footprint.h):
/// sizes and counts, without its buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// What makes a recurrence's products: fused multiply-adds, or the tensor cores in parts of TF32
/// that keep f32's accuracy (RecurrenceTile::split says which); or tensor cores as they are.
enum class RecurrenceEngine : uint8_t { Exact, Tf32, Half };
RecurrenceEngine engine_of(const Plan& plan);
/// Whether a tile's products are fused multiply-adds.
bool is_exact(const Plan& plan, const RecurrenceTile& tile);

struct RecurrenceShape {
  struct Product {
    int64_t members = 1;
    int64_t k_bytes = 0;
    int64_t blocks = 1;
    bool exchanged = false;  // `left` is what the recurrence writes
    bool early = false;  // that is, another side of it, which is ahead, or a step before the last
    bool stays = false;  // that is, in a block that has whole segments
    bool added = false;  // to the sums of another, in registers of tensor cores
    bool sends = false;  // exchanged, and the first with this `left`
    bool keeps = false;  // likewise of its side, whose products that read any of it all stay
    friend bool operator==(const Product&, const Product&) = default;
  };

  struct Phase {
    int64_t length = 0;
    int64_t segments = 1;  // parts of the length of which no block has elements of two
    int64_t fixed = 0;     // values of an element that are the same at every step, in registers
    int64_t kept = 0;      // loads of an element of what its thread keeps from step to step…
    int64_t carried = 0;   // …and values that it keeps of what this phase stores
    int64_t loaded = 0;    // a lap before they are needed; numbers of rows are in shared memory
    int64_t gathered = 0;  // of what others store
    int64_t reductions = 0;
    int64_t partials = 0;  // what blocks hand to each other for them
    int64_t levels = 0;    // of them: exchanges
    int64_t specials = 0;  // of an element: exponentials, quotients and the like
    std::vector<Product> products;
    friend bool operator==(const Phase&, const Phase&) = default;
  };

  RecurrenceEngine engine = RecurrenceEngine::Exact;
  int64_t batch = 1;
  int64_t element_bytes = 4;
  bool reduces = false;
  int64_t slots = 0;  // steps that blocks of a cluster keep of what they exchange
  std::vector<Phase> phases;
  std::vector<size_t> sides = {0};  // as in RecurrenceTile
};

RecurrenceShape shape_of(const Plan& plan, std::span<const FusedLaunch> phases,
                         std::span<const size_t> sides);

/// By phase: whether its side is unlike those before it. What holds for one holds for those like
/// it.
std::vector<bool> unlike_sides(const RecurrenceShape& shape);

}  // namespace rnnc
