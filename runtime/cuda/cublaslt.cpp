#include "runtime/cuda/cublaslt.h"

#include <mutex>
#include <optional>

#include "codegen/cuda/nvrtc/shared_library.h"

namespace rnnc::cuda {
namespace {

Result<CublasLtLibrary> load() {
  const Result<SharedLibrary> library = SharedLibrary::open("libcublasLt.so.13", "cuBLASLt 13");
  if (!library) return tl::unexpected(library.error());
  CublasLtLibrary lt;
  const auto find = [&library](const char* name, auto& function) {
    return [&library, name, &function] { return library->find(name, function); };
  };
  const Status found =
      library->find("cublasLtCreate", lt.create)
          .and_then(find("cublasLtDestroy", lt.destroy))
          .and_then(find("cublasLtGetStatusString", lt.status_string))
          .and_then(find("cublasLtMatmulDescInit_internal", lt.init_operation))
          .and_then(find("cublasLtMatmulDescSetAttribute", lt.set_operation))
          .and_then(find("cublasLtMatrixLayoutInit_internal", lt.init_layout))
          .and_then(find("cublasLtMatrixLayoutSetAttribute", lt.set_layout))
          .and_then(find("cublasLtMatmulPreferenceInit_internal", lt.init_preference))
          .and_then(find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference))
          .and_then(find("cublasLtMatmulAlgoGetHeuristic", lt.get_heuristic))
          .and_then(find("cublasLtMatmulAlgoCheck", lt.check_algorithm))
          .and_then(find("cublasLtMatmul", lt.matmul));
  if (!found) return tl::unexpected(found.error());
  return lt;
}

/// The process's one instance, or why there is none yet.
Result<const CublasLtLibrary*> find_library() {
  static std::mutex mutex;
  static std::optional<CublasLtLibrary> loaded;
  const std::scoped_lock lock(mutex);
  if (!loaded) {
    const Result<CublasLtLibrary> library = load();
    if (!library) return tl::unexpected(library.error());
    loaded = *library;
  }
  return &*loaded;
}

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::create(const CudaDevice& device) {
  const Result<const CublasLtLibrary*> found = find_library();
  if (!found) return tl::unexpected(found.error());
  const CublasLtLibrary& library = **found;
  std::unique_ptr<CublasLt> lt(new CublasLt(library, device));
  if (Status status = library.check(library.create(&lt->handle_), "starting"); !status) {
    return tl::unexpected(status.error());
  }
  return lt;
}

CublasLt::~CublasLt() {
  if (handle_ != nullptr) library_.destroy(handle_);
}

}  // namespace rnnc::cuda
