#include "codegen/cuda/nvrtc/compile.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "codegen/cuda/device/arch.h"
#include "codegen/cuda/nvrtc/nvrtc_library.h"
#include "codegen/cuda/nvrtc/shared_library.h"

namespace rnnc {
namespace {

/// "sm_90" → 90. Nothing for other texts, suffixes included.
std::optional<int> arch_number(std::string_view arch) {
  if (!arch.starts_with("sm_")) return std::nullopt;
  arch.remove_prefix(3);
  int number = 0;
  const auto [end, error] = std::from_chars(arch.data(), arch.data() + arch.size(), number);
  if (error != std::errc() || end != arch.data() + arch.size()) return std::nullopt;
  return number;
}

std::string supported_text(const NvrtcLibrary& nvrtc) {
  std::string text;
  for (const int arch : nvrtc.supported_archs) {
    if (arch < kOldestCudaArch) continue;
    text += fmt::format("{}sm_{}", text.empty() ? "" : ", ", arch);
  }
  return text;
}

/// One NVRTC program, destroyed at the end.
class NvrtcProgram {
 public:
  NvrtcProgram(const NvrtcLibrary& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    status_ = nvrtc_.create(&program_, source.c_str(), "rnnc.cu", 0, nullptr, nullptr);
  }
  ~NvrtcProgram() {
    if (program_ != nullptr) nvrtc_.destroy(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  Status compile(const std::string& architecture) {
    const std::string option = "--gpu-architecture=" + architecture;
    // On all of the machine's threads: an LSTM's backward half takes a quarter less on two.
    const std::array<const char*, 3> options = {option.c_str(), "--std=c++17", "--split-compile=0"};
    if (status_ == NVRTC_SUCCESS) {
      status_ = nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
    }
    if (status_ == NVRTC_SUCCESS) return {};
    return fail_as(
        ErrorKind::Internal,
        "NVRTC {}.{} did not compile generated code for {} ({}); this is a bug in rnnc\n{}",
        nvrtc_.major, nvrtc_.minor, architecture, nvrtc_.error_string(status_), log());
  }

  template <typename GetSize, typename Get>
  Result<std::string> text(GetSize* get_size, Get* get) {
    size_t size = 0;
    std::string result;
    status_ = get_size(program_, &size);
    if (status_ == NVRTC_SUCCESS) {
      result.resize(size);
      status_ = get(program_, result.data());
    }
    if (status_ == NVRTC_SUCCESS) return result;
    return fail("NVRTC gave no result: {}", nvrtc_.error_string(status_));
  }

 private:
  std::string log() {
    size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string result(size, '\0');
    if (nvrtc_.log(program_, result.data()) != NVRTC_SUCCESS) return "";
    while (!result.empty() && (result.back() == '\0' || result.back() == '\n')) result.pop_back();
    return result;
  }

  const NvrtcLibrary& nvrtc_;
  nvrtcProgram program_ = nullptr;
  nvrtcResult status_ = NVRTC_SUCCESS;
};

enum class Form : uint8_t { Ptx, Cubin };

Result<std::string> compile(std::string_view source, std::string_view arch, Form form) {
  const Result<const NvrtcLibrary*> library = nvrtc_library();
  if (!library) return tl::unexpected(library.error());
  const NvrtcLibrary& nvrtc = **library;
  const std::optional<int> number = arch_number(arch);
  if (!number || *number < kOldestCudaArch ||
      std::ranges::find(nvrtc.supported_archs, *number) == nvrtc.supported_archs.end()) {
    return fail("cannot compile for `{}`; NVRTC {}.{} and rnnc know {}", arch, nvrtc.major,
                nvrtc.minor, supported_text(nvrtc));
  }
  NvrtcProgram program(nvrtc, std::string(source));
  // NVRTC makes a cubin only for a real architecture; PTX is asked for by the virtual one.
  const char* prefix = form == Form::Cubin ? "sm_" : "compute_";
  if (Status status = program.compile(fmt::format("{}{}", prefix, *number)); !status) {
    return tl::unexpected(status.error());
  }
  if (form == Form::Cubin) return program.text(nvrtc.cubin_size, nvrtc.cubin);
  Result<std::string> ptx = program.text(nvrtc.ptx_size, nvrtc.ptx);
  if (ptx && !ptx->empty() && ptx->back() == '\0') ptx->pop_back();  // its size counts the NUL
  return ptx;
}

}  // namespace

const std::vector<std::string>& supported_cuda_archs() {
  static const std::vector<std::string> archs = {"sm_80", "sm_86",  "sm_89",
                                                 "sm_90", "sm_100", "sm_120"};
  return archs;
}

Result<std::string> cuda_arch_for(int major, int minor) {
  const int device = major * 10 + minor;
  if (device < kOldestCudaArch) {
    return fail("its architecture, sm_{}, is too old; rnnc needs sm_{} (Ampere) or newer", device,
                kOldestCudaArch);
  }
  const Result<const NvrtcLibrary*> nvrtc = nvrtc_library();
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  // Code for an older minor version runs on a newer one of the same major version.
  int best = 0;
  for (const int arch : (*nvrtc)->supported_archs) {
    if (arch / 10 == major && arch <= device) best = std::max(best, arch);
  }
  if (best >= kOldestCudaArch) return fmt::format("sm_{}", best);
  return fail("its architecture, sm_{}, is newer than NVRTC {}.{}, which knows {}", device,
              (*nvrtc)->major, (*nvrtc)->minor, supported_text(**nvrtc));
}

Result<std::string> nvrtc_version() {
  const Result<NvrtcFile> file = nvrtc_file();
  if (!file) return tl::unexpected(file.error());
  return file->version;
}

bool nvrtc_is_loaded() {
  return SharedLibrary::is_open(kNvrtcSoname);
}

std::vector<std::string> nvrtc_places() {
  return SharedLibrary::places(kNvrtcSoname);
}

Result<NvrtcFile> nvrtc_file() {
  const Result<const NvrtcLibrary*> nvrtc = nvrtc_library();
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  return NvrtcFile{(*nvrtc)->path, fmt::format("{}.{}", (*nvrtc)->major, (*nvrtc)->minor)};
}

Result<std::string> compile_ptx(std::string_view source, std::string_view arch) {
  return compile(source, arch, Form::Ptx);
}

Result<std::string> compile_cubin(std::string_view source, std::string_view arch) {
  return compile(source, arch, Form::Cubin);
}

}  // namespace rnnc
