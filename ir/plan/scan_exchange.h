/// What tiles of a ScanLaunch hand to later ones: words of f32 in its `exchange`, of which those of
/// NaN with all bits set are not there yet.
///
///     word 0                                        how many tiles have begun, less one
///     word 1 + (tile * words + w) * channels + c    word w of a tile and channel
///
/// Channels are elements of all rows: row * length + element. Of each round, in order: the composed
/// coefficients [m, m] and offsets [m] of the tile's steps, and the states [m] behind them, which a
/// tile adds only if others need them.
#pragma once

#include <cstdint>

#include "ir/plan/plan.h"

namespace rnnc {

/// Of a tile and channel.
int64_t scan_exchange_words(const ScanLaunch& launch);

/// Of the buffer: all tiles of a chunk but the last have words.
int64_t scan_exchange_width(const Plan& plan, const ScanLaunch& launch);

}  // namespace rnnc
