/// How buffers lie in memory.
#pragma once

#include <concepts>

namespace rnnc {

/// In bytes: where buffers of a plan's own begin, and the memory that they lie in.
inline constexpr int kBufferAlignment = 256;

/// The bytes that these take up to where the next buffer may begin.
template <std::integral T>
constexpr T aligned_size(T bytes) {
  constexpr T kAlignment = kBufferAlignment;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace rnnc
