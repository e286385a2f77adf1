/// How a recurrence lies on a GPU: how many blocks of threads, what each makes, and where its
/// weights are. What is known of the kernel, as far as tiles depend on it, is in
/// ir/plan/recurrence_kernel.h and ir/persistent/recurrence_footprint.h:
///
/// - One block is on each unit of the machine, and all run at the same time.
/// - A step takes as long as that of the slowest side: while it is at one, others are at others.
/// - A product takes its weights in tiles of 16 gates (a member's element each) by 64 bytes of k;
///   the warps of a block share each product's k, or where it is short its gates as well.
/// - Rows of the batch are taken `rows` at a time.
#pragma once

#include <span>
#include <vector>

#include "ir/plan/plan.h"
#include "passes/options/machine.h"
#include "passes/options/strategy.h"

namespace rnnc {

struct TileChoice {
  /// Not the best by the model of time but so many places behind it, or the last that fits.
  int64_t rank = 0;
  /// Recurrences that share the machine's units equally.
  int64_t beside = 1;
  /// Registers of a thread that are left free: what the compiler needs besides what is known of the
  /// kernel is not known.
  int64_t spare_registers = 0;
  /// Whether f32 products may be split into parts for tensor cores.
  bool split = true;
  /// Of launches of one step: what comes before it counts as much, and all weights are on the chip.
  bool one_step = false;
  /// Tiles of this one only. (Stacked ones have several sides: it leaves out none.)
  Strategy strategy = Strategy::Any;
  /// Of the launch, as RecurrenceTile has them: they share these units in turn.
  std::vector<size_t> sides = {0};
};

/// The fastest by the model of time (passes/tile/recurrence_time.h) that has room. `phases` are
/// those of a RecurrenceLaunch of `plan` (which need not have it). An error says in words what is
/// needed and what there is.
Result<RecurrenceTile> choose_recurrence_tile(const Plan& plan, std::span<const FusedLaunch> phases,
                                              const Machine& machine,
                                              const TileChoice& choice = {});

}  // namespace rnnc
