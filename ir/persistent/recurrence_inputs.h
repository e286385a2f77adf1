/// What the thread blocks of a RecurrenceLaunch copy to shared memory before the steps that need
/// it, and where there it lies: arguments of its phases that change from step to step and that the
/// launch does not write, rows of elements or one number for a row. A load to a register would be
/// waited for where the next step begins.
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

struct RecurrenceInput {
  size_t phase = 0;  // of the launch
  uint32_t argument = 0;
  int64_t granule = 0;    // bytes copied at once: 4, 8 or 16
  int64_t row_bytes = 0;  // of a block
  /// Elements: where a block's part of a row begins between two multiples of it, the copy begins at
  /// the one before. Else blocks' parts begin at granules.
  int64_t multiple = 1;
  int64_t granules = 0;  // of all rows, of those who share the copies
  int64_t offset = 0;    // of row 0 of the block's group, in a step's bytes
  /// Its array may not be aligned to granules: that shows at run time.
  bool is_checked = false;
  bool is_earlier = false;  // FusedLaunch::earlier
  /// Its granules follow those of the input before it, of which all but the array is the same.
  bool joins = false;
};

/// Of a side; `tile` has all but `input_steps`. The threads of a block share the copies, or where
/// warps keep their sums to themselves those of a warp.
struct RecurrenceInputs {
  std::vector<RecurrenceInput> inputs;
  int64_t step_bytes = 0;
  int64_t sharers = 0;
  int64_t copies = 0;  // of a thread, at each step
};
/// Whether all arguments of earlier steps are among them.
bool copies_earlier(const RecurrenceLaunch& launch, const RecurrenceInputs& inputs);
RecurrenceInputs inputs_of(const Plan& plan, std::span<const FusedLaunch> phases,
                           const RecurrenceTile& tile, size_t side);

}  // namespace rnnc
