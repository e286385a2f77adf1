#include "runtime/arrays/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/describe.h"
#include "runtime/base/files.h"

namespace rnnc {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

constexpr uint64_t kMaxTensorsHeader =
    16 << 20;  // of 100,000 tensors; parsed it takes six times as much
constexpr size_t kMaxTensorRank = 32;

struct Entry {
  std::string name;
  std::string dtype_name;
  DType dtype = DType::f32;  // once checked
  std::vector<int64_t> shape;
  std::vector<int64_t> offsets;
};

/// Takes the header's JSON as events, so that nothing is kept that has no place in a header:
/// nesting cannot grow and repeated keys are seen.
///
///     header = "{" { name ":" (tensor | metadata) } "}"
///     tensor = {"dtype": string, "shape": [integer...], "data_offsets": [integer, integer]}
///     metadata, under the name "__metadata__" = { string: string }
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::string problem;

  bool start_object(size_t) override {
    if (place_ == Place::outside) return enter(Place::header);
    if (place_ != Place::header) return misplaced("an object");
    if (key_ == "__metadata__") return enter(Place::metadata);
    entries.push_back({.name = key_, .dtype_name = {}, .shape = {}, .offsets = {}});
    fields_.clear();
    return enter(Place::tensor);
  }

  bool end_object() override {
    if (place_ == Place::tensor && fields_.size() != 3) {
      const std::string_view missing = !fields_.contains("dtype")   ? "dtype"
                                       : !fields_.contains("shape") ? "shape"
                                                                    : "data_offsets";
      return reject("tensor {} has no `{}`", quote(entries.back().name), missing);
    }
    place_ = place_ == Place::header ? Place::done : Place::header;
    return true;
  }

  bool key(std::string& key) override {
    if (place_ == Place::header && !names_.insert(key).second) {
      return reject("tensor {} occurs twice", quote(key));
    }
    if (place_ == Place::tensor) {
      const std::string name = quote(entries.back().name);
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        return reject("tensor {} has an unknown field {}", name, quote(key));
      }
      if (!fields_.insert(key).second) return reject("tensor {} has two `{}`", name, key);
    }
    key_ = key;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") return misplaced("an array");
    return enter(key_ == "shape" ? Place::shape : Place::offsets);
  }
  bool end_array() override { return enter(Place::tensor); }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || key_ != "dtype") return misplaced("a string");
    entries.back().dtype_name = value;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return misplaced("a number");
    if (value > INT64_MAX) return misplaced("a number above 2^63");
    Entry& entry = entries.back();
    std::vector<int64_t>& list = place_ == Place::shape ? entry.shape : entry.offsets;
    if (list.size() == kMaxTensorRank) return misplaced("a longer list than any tensor has");
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t) override { return misplaced("a negative number"); }
  bool number_float(double, const std::string&) override { return misplaced("a fraction"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool null() override { return misplaced("null"); }
  bool binary(nlohmann::json::binary_t&) override { return misplaced("binary data"); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return reject("it is not JSON: unexpected text at its byte {}", position);
  }

 private:
  enum class Place : uint8_t { outside, header, metadata, tensor, shape, offsets, done };

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  template <typename... Args>
  bool reject(fmt::format_string<Args...> format, Args&&... args) {
    problem = fmt::format(format, std::forward<Args>(args)...);
    return false;
  }

  bool misplaced(std::string_view what) {
    if (place_ == Place::outside) return reject("it is not an object but {}", what);
    if (place_ == Place::header) return reject("{} is {}, not a tensor", quote(key_), what);
    if (place_ == Place::metadata) return reject("`__metadata__` holds {}, not a string", what);
    return reject("`{}` of tensor {} holds {}", key_, quote(entries.back().name), what);
  }

  Place place_ = Place::outside;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string, std::less<>> fields_;
};

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name == "F64") return DType::f64;
  if (name == "F32") return DType::f32;
  if (name == "F16") return DType::f16;
  if (name == "BF16") return DType::bf16;
  return std::nullopt;
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
  }
  internal_error(__FILE__, __LINE__, "dtype");
}

/// Checks an entry's claims against each other and the bytes that are there.
Status check_tensor(Entry& entry, size_t data_size) {
  const std::string name = quote(entry.name);
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1]) {
    return fail("`data_offsets` of tensor {} are not a begin and an end", name);
  }
  if (static_cast<size_t>(entry.offsets[1]) > data_size) {
    return fail("tensor {} ends at byte {} of the data, but only {} bytes are there", name,
                entry.offsets[1], data_size);
  }
  const std::optional<DType> dtype = dtype_from_name(entry.dtype_name);
  if (!dtype) return {};
  const std::optional<int64_t> count = count_elements(entry.shape);
  entry.dtype = *dtype;
  const auto element = static_cast<int64_t>(size_of(entry.dtype));
  const int64_t size = entry.offsets[1] - entry.offsets[0];
  // Compared by division: the product may overflow.
  if (!count || size % element != 0 || size / element != *count) {
    return fail("tensor {} of {} with shape {} does not fill its {} bytes", name, entry.dtype_name,
                shape_text(entry.shape), size);
  }
  return {};
}

/// Tensors must fill the data exactly, without gaps and overlaps. Sorts `entries` by place.
Status check_layout(std::vector<Entry>& entries, size_t data_size) {
  std::ranges::stable_sort(entries, {}, &Entry::offsets);
  int64_t place = 0;
  const Entry* before = nullptr;
  for (const Entry& entry : entries) {
    if (entry.offsets[0] < place) {
      return fail("tensors {} and {} overlap", quote(before->name), quote(entry.name));
    }
    if (entry.offsets[0] > place) {
      return fail("{} bytes before tensor {} belong to no tensor", entry.offsets[0] - place,
                  quote(entry.name));
    }
    place = entry.offsets[1];
    before = &entry;
  }
  if (static_cast<size_t>(place) != data_size) {
    return fail("{} bytes at its end belong to no tensor", data_size - static_cast<size_t>(place));
  }
  return {};
}

class SafetensorsSource : public ArraySource {
 public:
  SafetensorsSource(ByteSource bytes, std::string_view name)
      : bytes_(std::move(bytes)), name_(name) {}

  Status open() {
    Status status = read_header();
    return status ? status : wrong(status.error().message);
  }

  Result<Array> read(size_t index) const override {
    const NamedArray& header = arrays_[index].array;
    Array array = Array::zeros(header.array.dtype, header.array.shape);
    if (Status whole = array.check(); !whole) {
      return fail("not enough memory for tensor {} {} of {}", quote(header.name),
                  shape_text(array.shape), quote(name_));
    }
    Status status = bytes_.read(begins_[index], array.data.data(), array.data.size());
    if (!status) return wrong(status.error().message);
    return array;
  }

 private:
  Status read_header();
  tl::unexpected<Error> wrong(std::string_view problem) const {
    return fail("{} is not a safetensors file that can be read: {}", quote(name_), problem);
  }

  ByteSource bytes_;
  std::string name_;
  std::vector<uint64_t> begins_;  // of the tensors' bytes in the file
};

Status SafetensorsSource::read_header() {
  uint64_t header_size = 0;
  constexpr uint64_t kBegin = sizeof header_size;
  if (bytes_.size() < kBegin) return fail("it has only {} bytes", bytes_.size());
  if (Status status = bytes_.read(0, &header_size, kBegin); !status) return status;
  if (header_size > kMaxTensorsHeader) {
    return fail("it says that its header has {} bytes, more than any file's", header_size);
  }
  if (header_size > bytes_.size() - kBegin) {
    return fail("it is cut short: its header should have {} bytes, but only {} follow", header_size,
                bytes_.size() - kBegin);
  }
  const Result<std::string> header = bytes_.read(kBegin, header_size);
  if (!header) return tl::unexpected(header.error());
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header->begin(), header->end(), &reader)) {
    return fail("its header is damaged: {}", reader.problem);
  }

  // Everything is checked before anything is allocated.
  const uint64_t data_size = bytes_.size() - kBegin - header_size;
  for (Entry& entry : reader.entries) {
    if (Status status = check_tensor(entry, data_size); !status) return status;
  }
  if (Status status = check_layout(reader.entries, data_size); !status) return status;
  for (Entry& entry : reader.entries) {
    std::string problem;
    if (!dtype_from_name(entry.dtype_name)) {
      problem = fmt::format(
          "holds {}; rnnc reads F64, F32, F16 and BF16 (in PyTorch `t.float()` converts)",
          quote(entry.dtype_name));
    }
    begins_.push_back(kBegin + header_size + static_cast<uint64_t>(entry.offsets[0]));
    arrays_.push_back(
        {{std::move(entry.name), {entry.dtype, std::move(entry.shape), {}}}, std::move(problem)});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ArraySource>> open_safetensors(ByteSource bytes, std::string_view name) {
  auto source = std::make_unique<SafetensorsSource>(std::move(bytes), name);
  if (Status status = source->open(); !status) return tl::unexpected(status.error());
  return source;
}

Result<std::vector<NamedArray>> parse_safetensors(std::string_view bytes, std::string_view name) {
  const auto source = open_safetensors(ByteSource(bytes), name);
  return source ? read_all(**source, name) : tl::unexpected(source.error());
}

Result<std::vector<NamedArray>> read_safetensors(const std::filesystem::path& path) {
  Result<ByteSource> bytes = ByteSource::open(path);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto source = open_safetensors(std::move(*bytes), path.string());
  return source ? read_all(**source, path.string()) : tl::unexpected(source.error());
}

Result<std::string> format_safetensors(const std::vector<NamedArray>& arrays) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t offset = 0;
  for (const NamedArray& named : arrays) {
    if (Status whole = named.array.check(); !whole) {
      return fail("array {} {}", quote(named.name), whole.error().message);
    }
    if (header.contains(named.name)) return fail("array {} is given twice", quote(named.name));
    const size_t end = offset + named.array.data.size();
    header[named.name] = {{"dtype", dtype_name(named.array.dtype)},
                          {"shape", named.array.shape},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');

  const uint64_t size = text.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += text;
  for (const NamedArray& named : arrays) {
    bytes.append(reinterpret_cast<const char*>(named.array.data.data()), named.array.data.size());
  }
  return bytes;
}

Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& arrays) {
  const Result<std::string> bytes = format_safetensors(arrays);
  if (!bytes) return fail("cannot write {}: {}", quote(path.string()), bytes.error().message);
  return write_file(path, *bytes);
}

}  // namespace rnnc
