#include "runtime/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "codegen/cuda/nvrtc/compile.h"
#include "runtime/backend/library_record.h"

namespace rnnc::cuda {
namespace {

/// A few words that a kernel puts away before its steps and takes back behind them cost nothing.
/// What a step reads again costs some cycles a word, in each of its passes over the batch. Of steps
/// that are predicted to take 10 us, 30 bytes do not show, and with 120 it is not worth running.
/// (GRU 80x1920 in bf16, predicted 20 us: 15.9 us with 104 bytes, 12.2 with fewer registers for
/// weights and none.)
constexpr int64_t kFewSpilledBytes = 32;
constexpr double kFewSpilledBytesOfSecond = 3e6;
constexpr double kMostSpilledBytesOfSecond = 12e6;

/// Words, where there are more bytes than in so many of a second.
std::string object_to_spills(int64_t local_bytes, double step_seconds, double bytes_of_second) {
  const auto of_step = static_cast<int64_t>(bytes_of_second * step_seconds);
  if (local_bytes <= std::max(kFewSpilledBytes, of_step)) return "";
  return fmt::format("its kernel spills {} bytes of each thread's registers", local_bytes);
}

/// The T at `offset`; nothing beyond the end.
template <typename T>
std::optional<T> read(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::string_view part(std::string_view bytes, uint64_t offset, uint64_t size) {
  return offset > bytes.size() ? "" : bytes.substr(offset, size);
}

/// The text up to its end or a zero.
std::string_view text_at(std::string_view bytes, uint64_t offset) {
  const std::string_view rest = part(bytes, offset, std::string_view::npos);
  return rest.substr(0, rest.find('\0'));
}

/// Sections of an ELF file of 64 bits, by name; empty where there is none.
class Sections {
 public:
  explicit Sections(std::string_view file) : file_(file) {
    const auto head = read<Elf64_Ehdr>(file, 0);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return;
    first_ = head->e_shoff;
    count_ = head->e_shnum;
    names_ = at(head->e_shstrndx);
  }

  std::string_view find(std::string_view name) const {
    for (uint64_t i = 0; i < count_; ++i) {
      const auto section = header(i);
      if (section && text_at(names_, section->sh_name) == name) return at(i);
    }
    return "";
  }

 private:
  std::optional<Elf64_Shdr> header(uint64_t index) const {
    return read<Elf64_Shdr>(file_, first_ + index * sizeof(Elf64_Shdr));
  }
  std::string_view at(uint64_t index) const {
    const auto section = header(index);
    return section ? part(file_, section->sh_offset, section->sh_size) : "";
  }

  std::string_view file_;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  std::string_view names_;
};

std::string key_of(std::string_view source, std::string_view arch, std::string_view nvrtc) {
  return fmt::format("cubin for {} by NVRTC {}\n{}", arch, nvrtc, source);
}

}  // namespace

std::optional<std::string> known_nvrtc_version(const KernelCache& cache) {
  if (!nvrtc_is_loaded()) return recall_version(nvrtc_places(), cache);
  const Result<std::string> version = nvrtc_version();
  return version ? std::optional(*version) : std::nullopt;
}

std::optional<std::string> find_cubin(std::string_view source, std::string_view arch,
                                      std::string_view nvrtc_version, const KernelCache& cache) {
  return cache.get(key_of(source, arch, nvrtc_version));
}

Result<Cubin> compile_module(const CudaModule& module, std::string_view arch,
                             const KernelCache& cache) {
  const std::optional<std::string> known = known_nvrtc_version(cache);
  std::optional<std::string> cached =
      known ? find_cubin(module.source, arch, *known, cache) : std::nullopt;
  if (cached) return Cubin{*std::move(cached), true};
  const Result<NvrtcFile> compiler = nvrtc_file();
  if (!compiler) return tl::unexpected(compiler.error());
  remember_version(compiler->version, compiler->path, nvrtc_places(), cache);
  const std::string key = key_of(module.source, arch, compiler->version);
  if (known != compiler->version) cached = cache.get(key);
  if (cached) return Cubin{*std::move(cached), true};
  Result<std::string> code = compile_cubin(module.source, arch);
  if (!code) return tl::unexpected(code.error());
  Cubin cubin{*std::move(code)};
  cubin.kept = cache.store(key, cubin.code);
  return cubin;
}

/// NVIDIA's compiler writes section .nv.info: attributes, each of a byte of format, a byte of kind
/// and two of a value or, in the format here, of the size of what follows: a symbol and its value.
int64_t local_bytes(std::string_view cubin, std::string_view kernel) {
  constexpr uint8_t kSized = 4;
  constexpr uint8_t kFrameSize = 0x11;
  struct Attribute {
    uint8_t format, kind;
    uint16_t size;
  };
  struct SymbolValue {
    uint32_t symbol, value;
  };
  const Sections sections(cubin);
  const std::string_view info = sections.find(".nv.info");
  const std::string_view symbols = sections.find(".symtab");
  const std::string_view names = sections.find(".strtab");
  uint64_t place = 0;
  while (const auto attribute = read<Attribute>(info, place)) {
    place += sizeof(Attribute);
    if (attribute->format != kSized) continue;
    const auto value = read<SymbolValue>(info, place);
    place += attribute->size;
    if (attribute->kind != kFrameSize || !value) continue;
    const auto symbol = read<Elf64_Sym>(symbols, value->symbol * sizeof(Elf64_Sym));
    if (symbol && text_at(names, symbol->st_name) == kernel) return value->value;
  }
  return 0;
}

std::string refuse_spills(int64_t local_bytes, double step_seconds) {
  return object_to_spills(local_bytes, step_seconds, kMostSpilledBytesOfSecond);
}

std::string doubt_spills(int64_t local_bytes, double step_seconds) {
  return object_to_spills(local_bytes, step_seconds, kFewSpilledBytesOfSecond);
}

}  // namespace rnnc::cuda
