/// NVRTC's functions, found when first needed.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

inline constexpr const char* kNvrtcSoname = "libnvrtc.so.13";

struct NvrtcLibrary {
  decltype(::nvrtcVersion)* version = nullptr;
  decltype(::nvrtcGetErrorString)* error_string = nullptr;
  decltype(::nvrtcGetNumSupportedArchs)* arch_count = nullptr;
  decltype(::nvrtcGetSupportedArchs)* archs = nullptr;
  decltype(::nvrtcCreateProgram)* create = nullptr;
  decltype(::nvrtcDestroyProgram)* destroy = nullptr;
  decltype(::nvrtcCompileProgram)* compile = nullptr;
  decltype(::nvrtcGetProgramLogSize)* log_size = nullptr;
  decltype(::nvrtcGetProgramLog)* log = nullptr;
  decltype(::nvrtcGetPTXSize)* ptx_size = nullptr;
  decltype(::nvrtcGetPTX)* ptx = nullptr;
  decltype(::nvrtcGetCUBINSize)* cubin_size = nullptr;
  decltype(::nvrtcGetCUBIN)* cubin = nullptr;

  std::string path;  // of its file
  int major = 0;
  int minor = 0;
  std::vector<int> supported_archs;  // 80 for sm_80, ascending
};

/// The process's one instance, or why there is none, which may change when a folder is added.
/// Thread-safe.
Result<const NvrtcLibrary*> nvrtc_library();

}  // namespace rnnc
