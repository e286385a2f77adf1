#include "runtime/arrays/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/arrays/npy_format.h"
#include "runtime/base/byte_source.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"

namespace rnnc {
namespace {

IntegerArray to_integers(const NpyHeader& header, const std::vector<std::byte>& data) {
  const size_t size = header.element.size;
  IntegerArray result{header.shape, std::vector<int64_t>(data.size() / size)};
  for (size_t i = 0; i < result.values.size(); ++i) {
    // The sign's copies go where the element has no bytes.
    const bool negative =
        header.element.is_signed && (data[(i + 1) * size - 1] & std::byte{0x80}) != std::byte{0};
    int64_t value = negative ? -1 : 0;
    std::memcpy(&value, &data[i * size], size);
    result.values[i] = value;
  }
  return result;
}

Array to_mask(const NpyHeader& header, std::vector<std::byte> data) {
  if (header.element.kind == NpyElement::Kind::floating) {
    return make_floats(header, std::move(data));
  }
  // Not converted: a large integer may be no number in f32, and what is not 0 is true.
  const size_t size = header.element.size;
  Array mask{DType::f32, header.shape, std::vector<std::byte>(data.size() / size * sizeof(float))};
  for (size_t i = 0; i < data.size() / size; ++i) {
    const auto element = data.begin() + static_cast<ptrdiff_t>(i * size);
    const bool set = std::any_of(element, element + static_cast<ptrdiff_t>(size),
                                 [](std::byte part) { return part != std::byte{}; });
    const float value = set ? 1 : 0;
    std::memcpy(&mask.data[i * sizeof value], &value, sizeof value);
  }
  return mask;
}

/// What the bytes hold, made an array by `convert`.
template <typename Convert>
auto read_elements(const ByteSource& source, NpyUse use, const std::string& name, Convert convert)
    -> Result<decltype(convert(NpyHeader{}, std::vector<std::byte>{}))> {
  const auto wrong = [&name](const std::string& problem) {
    return fail("{} is not a .npy file that can be read: {}", name, problem);
  };
  uint64_t place = 0;
  const Result<NpyHeader> header = read_npy_header(
      [&](uint64_t size) { return source.read(std::exchange(place, place + size), size); },
      source.size());
  if (!header) return wrong(header.error().message);
  if (const std::string problem = check_npy_element(header->element, use); !problem.empty()) {
    return fail("{} {}", name, problem);
  }
  Result<std::vector<std::byte>> data = read_npy_data(
      *header,
      [&](std::byte* target, uint64_t size) { return source.read(header->begin, target, size); });
  if (!data) return wrong(data.error().message);
  return convert(*header, std::move(*data));
}

/// The same of a file's bytes.
template <typename Convert>
auto read_elements(const std::filesystem::path& path, NpyUse use, Convert convert)
    -> Result<decltype(convert(NpyHeader{}, std::vector<std::byte>{}))> {
  const Result<ByteSource> source = ByteSource::open(path);
  if (!source) return tl::unexpected(source.error());
  return read_elements(*source, use, quote(path.string()), convert);
}

}  // namespace

Result<Array> parse_npy(std::string_view bytes, std::string_view name) {
  return read_elements(ByteSource(bytes), NpyUse::values, quote(name), make_floats);
}

Result<Array> read_npy(const std::filesystem::path& path) {
  return read_elements(path, NpyUse::values, make_floats);
}

Result<IntegerArray> parse_npy_integers(std::string_view bytes, std::string_view name) {
  return read_elements(ByteSource(bytes), NpyUse::whole_numbers, quote(name), to_integers);
}

Result<IntegerArray> read_npy_integers(const std::filesystem::path& path) {
  return read_elements(path, NpyUse::whole_numbers, to_integers);
}

Result<Array> parse_npy_mask(std::string_view bytes, std::string_view name) {
  return read_elements(ByteSource(bytes), NpyUse::mask, quote(name), to_mask);
}

Result<Array> read_npy_mask(const std::filesystem::path& path) {
  return read_elements(path, NpyUse::mask, to_mask);
}

namespace {

/// A version 1.0 file of `data`.
std::string format_file(std::string_view descr, const std::vector<int64_t>& shape,
                        std::string_view data) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // Spaces and a line end, so that the data starts at a multiple of 64 bytes.
  constexpr size_t kPrefix = kNpyMagic.size() + 4;
  const size_t unpadded = kPrefix + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';

  std::string bytes(kNpyMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes += data;
  return bytes;
}

}  // namespace

std::string format_npy(const Array& array) {
  if (array.dtype == DType::bf16) return format_npy(array.as(DType::f32));
  const char kind = array.dtype == DType::i32 ? 'i' : 'f';
  return format_file(fmt::format("<{}{}", kind, size_of(array.dtype)), array.shape,
                     {reinterpret_cast<const char*>(array.data.data()), array.data.size()});
}

std::string format_npy_integers(const IntegerArray& array) {
  return format_file(
      "<i8", array.shape,
      {reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(int64_t)});
}

Status write_npy(const std::filesystem::path& path, const Array& array) {
  if (Status whole = array.check(); !whole) {
    return fail("cannot write {}: its array {}", quote(path.string()), whole.error().message);
  }
  return write_file(path, format_npy(array));
}

}  // namespace rnnc
