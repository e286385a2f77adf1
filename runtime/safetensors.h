/// The safetensors format (https://huggingface.co/docs/safetensors): an 8-byte header length, a
/// JSON header, then the tensors' bytes. Headers are never trusted.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/status.h"
#include "runtime/array.h"

namespace rnnc {

/// Every tensor of dtype F64, F32, F16 or BF16, in file order; another dtype is an error naming it.
Result<std::vector<NamedArray>> read_safetensors(const std::filesystem::path& path);
Result<std::vector<NamedArray>> parse_safetensors(std::string_view bytes, std::string_view name);
/// Arrays as the bytes of a file.
std::string format_safetensors(const std::vector<NamedArray>& arrays);
Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& arrays);

}  // namespace rnnc
