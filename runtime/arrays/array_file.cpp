#include "runtime/arrays/array_file.h"

#include "runtime/arrays/foreign_format.h"
#include "runtime/arrays/npz.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/base/byte_source.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"

namespace rnnc {
namespace {

Result<std::unique_ptr<ArraySource>> open_source(ByteSource bytes, std::string_view name) {
  const Result<std::string> start = bytes.read(0, kForeignStart);
  if (!start) return fail("cannot read {}: {}", quote(name), start.error().message);
  if (start->starts_with("PK")) return open_npz(std::move(bytes), name);
  if (const std::string foreign = describe_foreign(*start, name); !foreign.empty()) {
    return fail("{}", foreign);
  }
  return open_safetensors(std::move(bytes), name);
}

}  // namespace

Result<ArrayFile> ArrayFile::open(const std::filesystem::path& path) {
  Result<ByteSource> bytes = ByteSource::open(path);
  if (!bytes) return tl::unexpected(bytes.error());
  Result<std::unique_ptr<ArraySource>> source = open_source(std::move(*bytes), path.string());
  if (!source) return tl::unexpected(source.error());
  return ArrayFile(path.string(), std::move(*source));
}

Result<ArrayFile> ArrayFile::parse(std::string bytes, std::string_view name) {
  Result<std::unique_ptr<ArraySource>> source =
      open_source(ByteSource::owning(std::move(bytes)), name);
  if (!source) return tl::unexpected(source.error());
  return ArrayFile(std::string(name), std::move(*source));
}

Result<std::vector<NamedArray>> ArrayFile::headers(std::string_view prefix) const {
  std::vector<NamedArray> headers;
  for (const auto& [header, problem] : source_->arrays()) {
    if (!header.name.starts_with(prefix)) continue;
    if (!problem.empty()) return fail("{} of {} {}", quote(header.name), quote(name_), problem);
    headers.push_back({header.name.substr(prefix.size()), header.array});
  }
  if (!headers.empty() || prefix.empty()) return headers;
  return fail("{}: no tensor's name starts with {}{}", quote(name_), quote(prefix),
              source_->arrays().empty()
                  ? ""
                  : fmt::format("; there is {}", quote(source_->arrays().front().array.name)));
}

Result<std::vector<NamedArray>> ArrayFile::read(std::string_view prefix) const {
  Result<std::vector<NamedArray>> arrays = headers(prefix);
  if (!arrays) return arrays;
  size_t next = 0;
  for (size_t i = 0; i < source_->arrays().size(); ++i) {
    if (!source_->arrays()[i].array.name.starts_with(prefix)) continue;
    Result<Array> array = source_->read(i);
    if (!array) return tl::unexpected(array.error());
    (*arrays)[next++].array = std::move(*array);
  }
  return arrays;
}

Status write_arrays(const std::filesystem::path& path, const std::vector<NamedArray>& arrays) {
  if (path.extension() != ".npz") return write_safetensors(path, arrays);
  const Result<std::string> bytes = format_npz(arrays);
  return bytes ? write_file(path, *bytes) : tl::unexpected(bytes.error());
}

}  // namespace rnnc
