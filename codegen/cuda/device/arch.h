/// Which GPUs code is made for.
#pragma once

#include <string_view>

namespace rnnc {

inline constexpr int kOldestCudaArch = 80;
/// Of code that is made without a device.
inline constexpr std::string_view kDefaultCudaArch = "sm_90";

}  // namespace rnnc
