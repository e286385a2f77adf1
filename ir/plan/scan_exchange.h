/// What tiles of a ScanLaunch hand to later ones: words of f32 in its `exchange`, of which those of
/// NaN with all bits set are not there yet.
///
///     word 0                                        how many tiles have begun, less one
///     word 1 + (tile * words + w) * channels + c    word w of a tile and channel
///
/// Channels are elements of all rows: row * length + element. Of each round, in order: the composed
/// coefficients (ir/plan/scan_structure.h) and offsets [m] of the tile's steps, and the states [m]
/// behind them, which a tile adds only if others need them. In groups of one tile these are all.
///
/// And what a tile adds up for `totals`, in its `partials`: f32 [tiles, B, totals, length].
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a tile and channel.
int64_t scan_exchange_words(const Kernel& kernel, const std::vector<ScanRound>& rounds,
                            int64_t group);

/// Of the buffer: all tiles of a chunk but the last have words.
int64_t scan_exchange_width(const Plan& plan, const ScanLaunch& launch);

/// Of `partials`: of all tiles of a chunk.
int64_t scan_partials_width(const Plan& plan, const ScanLaunch& launch);

/// Gives `partials` the width that the plan's chunk asks for.
void fit_scan_partials(Plan& plan);

}  // namespace rnnc
