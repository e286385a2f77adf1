/// CUDA C++ → PTX or cubin through NVRTC, which is loaded on first use. Only this folder sees it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

/// Architectures that generated code is compiled for in tests: sm_80 and newer.
const std::vector<std::string>& supported_cuda_archs();

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
