/// Where a plan's buffers lie, and when each is in use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"
#include "passes/memory/lifetimes.h"

namespace rnnc::explain {

struct MemoryMap {
  /// A buffer, or several that follow each other in one place.
  struct Block {
    std::string name;
    Arena arena = Arena::Workspace;
    DType dtype = DType::f32;
    int64_t offset = 0;
    int64_t bytes = 0;
    // Launches, counted through all stages: the first and the last that it is needed for.
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t stage = 0;  // the first that writes it
  };
  std::vector<Block> blocks;
  uint32_t launches = 0;                  // in all stages
  int64_t workspace_bytes = 0;            // for the call's steps
  int64_t workspace_bytes_fixed = 0;      // of them, what does not grow with the steps
  int64_t workspace_bytes_per_step = 0;   // and what does
  int64_t live_bytes = 0;                 // the most of the fixed part that is in use at a time
  int64_t fixed_bytes_without_reuse = 0;  // if every buffer had memory of its own
  int64_t program_bytes = 0;
  int64_t caller_bytes = 0;  // arrays of the call
};

MemoryMap map_memory(const Plan& plan, int64_t steps);

std::string_view name_of(Arena arena);

}  // namespace rnnc::explain
