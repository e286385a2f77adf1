/// Plan → CUDA C++ → PTX or cubin through NVRTC. Needs no GPU and no driver. Only this folder sees
/// NVRTC, which is loaded on first use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"

namespace rnnc {

inline constexpr int kOldestCudaArch = 80;
/// Of code that is made without a device.
inline constexpr std::string_view kDefaultCudaArch = "sm_90";

/// Architectures that generated code is compiled for in tests: sm_80 and newer.
const std::vector<std::string>& supported_cuda_archs();

/// The text of the plan's module (cuda_module.h).
Result<std::string> emit_cuda(const Plan& plan, std::string_view arch = kDefaultCudaArch);

/// The architecture to compile for on a device of this compute capability: "sm_90". An error that
/// continues "this GPU cannot be used: …" where it is too old, or too new for this NVRTC.
Result<std::string> cuda_arch_for(int major, int minor);

/// "13.0", or why NVRTC cannot be used.
Result<std::string> nvrtc_version();

/// For those who would know its version without loading it, which takes a while: whether it is
/// loaded; the files that decide which one would be (SharedLibrary::places); what was.
bool nvrtc_is_loaded();
std::vector<std::string> nvrtc_places();
struct NvrtcFile {
  std::string path;
  std::string version;
};
Result<NvrtcFile> nvrtc_file();

/// `arch` is "sm_90" and the like. Errors carry the compiler's log. Spilled registers are no error
/// here.
Result<std::string> compile_ptx(std::string_view source, std::string_view arch);
Result<std::string> compile_cubin(std::string_view source, std::string_view arch);

}  // namespace rnnc
