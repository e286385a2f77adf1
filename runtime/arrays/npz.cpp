#include "runtime/arrays/npz.h"

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/arrays/foreign_format.h"
#include "runtime/arrays/npy.h"
#include "runtime/arrays/npy_format.h"
#include "runtime/arrays/zip_library.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

constexpr std::string_view kSuffix = ".npy";
/// Deflate never packs more bytes into one than this (https://zlib.net/zlib_tech.html).
constexpr uint64_t kGreatestRatio = 1032;

/// libzip's errors, as a value that frees itself.
class ZipError {
 public:
  ZipError() { zip().error_init(&error_); }
  ~ZipError() { zip().error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;

  zip_error_t* get() { return &error_; }
  std::string text() { return zip().error_strerror(&error_); }

 private:
  zip_error_t error_{};
};

struct SourceDeleter {
  void operator()(zip_source_t* source) const { zip().source_free(source); }
};
struct ArchiveDeleter {
  void operator()(zip_t* archive) const { zip().discard(archive); }
};
struct MemberDeleter {
  void operator()(zip_file_t* member) const { zip().fclose(member); }
};
using SourceHandle = std::unique_ptr<zip_source_t, SourceDeleter>;
using Archive = std::unique_ptr<zip_t, ArchiveDeleter>;
using Member = std::unique_ptr<zip_file_t, MemberDeleter>;

/// An archive that reads `source` or is to be written to it.
Result<Archive> open_archive(zip_source_t* source, int flags) {
  ZipError error;
  zip().source_keep(source);  // the archive's own reference, beside the caller's
  Archive archive(zip().open_from_source(source, flags, error.get()));
  if (archive) return archive;
  zip().source_free(source);
  return fail("{}", error.text());
}

/// Whether a member is one that NumPy writes, of a size that its bytes can have.
Status check_member(const zip_stat_t& info, uint64_t file_bytes) {
  if (info.encryption_method != ZIP_EM_NONE) return fail("it is encrypted");
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    return fail("its compression method {} is neither stored nor deflated", info.comp_method);
  }
  if (info.comp_size > file_bytes) {
    return fail("its {} bytes are more than the {} of the file", info.comp_size, file_bytes);
  }
  const uint64_t ratio = info.comp_method == ZIP_CM_STORE ? 1 : kGreatestRatio;
  if (info.size / ratio > info.comp_size) {
    return fail("it claims to hold {} bytes in {}", info.size, info.comp_size);
  }
  return {};
}

/// A member's bytes, one after the other.
class MemberReader {
 public:
  static Result<MemberReader> open(zip_t* archive, zip_uint64_t index) {
    Member member(zip().fopen_index(archive, index, 0));
    if (!member) return fail("{}", zip().strerror(archive));
    return MemberReader(std::move(member));
  }

  /// Fills `target` as far as there are bytes, and returns how many there were.
  Result<uint64_t> read(void* target, uint64_t size) {
    uint64_t used = 0;
    while (used < size) {
      const zip_int64_t count =
          zip().fread(member_.get(), static_cast<char*>(target) + used, size - used);
      if (count < 0) return fail("{}", zip().file_strerror(member_.get()));
      if (count == 0) break;
      used += static_cast<uint64_t>(count);
    }
    return used;
  }
  Result<std::string> read(uint64_t size) {
    std::string bytes(size, '\0');
    const Result<uint64_t> used = read(bytes.data(), size);
    if (!used) return tl::unexpected(used.error());
    bytes.resize(*used);
    return bytes;
  }

 private:
  explicit MemberReader(Member member) : member_(std::move(member)) {}
  Member member_;
};

class NpzSource : public ArraySource {
 public:
  explicit NpzSource(std::string_view name) : name_(name) {}

  Status open(const ByteSource& bytes);
  Result<Array> read(size_t index) const override;

 private:
  Status fill(size_t index, const NpyHeader& header, Array& array) const;
  Status add(zip_uint64_t index);
  tl::unexpected<Error> wrong(std::string_view problem) const {
    return fail("{} is not a .npz file that can be read: {}", quote(name_), problem);
  }

  std::string name_;
  std::string bytes_;
  SourceHandle source_;
  Archive archive_;
  uint64_t packed_bytes_ = 0;
  uint64_t array_bytes_ = 0;
  std::set<std::string, std::less<>> names_;
  std::vector<NpyHeader> headers_;
};

/// Checks a member and reads its header.
Status NpzSource::add(zip_uint64_t index) {
  zip_stat_t info{};
  if (zip().stat_index(archive_.get(), index, 0, &info) != 0) {
    return fail("member {}: {}", index, zip().strerror(archive_.get()));
  }
  const std::string_view file = info.name;
  if (Status status = check_member(info, bytes_.size()); !status) {
    return fail("member {}: {}", quote(file), status.error().message);
  }
  if (!file.ends_with(kSuffix)) return fail("its member {} is not a .npy file", quote(file));
  const std::string_view name = file.substr(0, file.size() - kSuffix.size());
  if (!names_.emplace(name).second) return fail("it has two members {}", quote(file));
  // Members that share the same bytes could unpack to any size.
  packed_bytes_ += info.comp_size;
  if (packed_bytes_ > bytes_.size()) return fail("its members overlap");

  Result<MemberReader> member = MemberReader::open(archive_.get(), index);
  if (!member) return fail("member {}: {}", quote(file), member.error().message);
  Result<NpyHeader> header =
      read_npy_header([&](uint64_t size) { return member->read(size); }, info.size);
  if (!header) {
    return fail("its member {} is not a .npy file that can be read: {}", quote(file),
                header.error().message);
  }
  Stored stored{{std::string(name), {}}, check_npy_element(header->element, NpyUse::values)};
  if (stored.problem.empty()) {
    array_bytes_ += header->size;
    Status fits = check_host_memory("its arrays take", static_cast<double>(array_bytes_));
    if (!fits) return fits;
    stored.array.array = make_floats(*header, {});
  } else {
    stored.array.array.shape = header->shape;
  }
  arrays_.push_back(std::move(stored));
  headers_.push_back(std::move(*header));
  return {};
}

Status NpzSource::open(const ByteSource& bytes) {
  Result<std::string> all = bytes.read(0, bytes.size());
  if (!all) return wrong(all.error().message);
  bytes_ = std::move(*all);
  if (Status opened = open_zip(); !opened) return opened;
  // To libzip no bytes are an archive without members.
  if (!bytes_.starts_with("PK")) return wrong("it is not a zip archive");
  ZipError error;
  source_.reset(zip().source_buffer_create(bytes_.data(), bytes_.size(), 0, error.get()));
  if (!source_) return wrong(error.text());
  Result<Archive> archive = open_archive(source_.get(), ZIP_RDONLY);
  if (!archive) return wrong(archive.error().message);
  archive_ = std::move(*archive);
  const auto count = static_cast<zip_uint64_t>(zip().get_num_entries(archive_.get(), 0));
  for (zip_uint64_t i = 0; i < count; ++i) {
    const char* member = zip().get_name(archive_.get(), i, 0);
    const std::string foreign = member == nullptr ? "" : describe_foreign_archive(member, name_);
    if (!foreign.empty()) return fail("{}", foreign);
    if (Status status = add(i); !status) return wrong(status.error().message);
  }
  return {};
}

Status NpzSource::fill(size_t index, const NpyHeader& header, Array& array) const {
  Result<MemberReader> member = MemberReader::open(archive_.get(), index);
  if (!member) return tl::unexpected(member.error());
  const Result<std::string> head = member->read(header.begin);
  if (!head) return tl::unexpected(head.error());
  Result<std::vector<std::byte>> data =
      read_npy_data(header, [&](std::byte* target, uint64_t size) -> Status {
        const uint64_t claimed = header.begin + header.size;
        const Result<uint64_t> used = member->read(target, size);
        if (!used) return tl::unexpected(used.error());
        char more = 0;  // reading past the end compares the checksum
        const Result<uint64_t> rest = member->read(&more, 1);
        if (!rest) return tl::unexpected(rest.error());
        if (*used == size && *rest == 0) return {};
        return fail("it does not hold the {} bytes that it claims", claimed);
      });
  if (!data) return tl::unexpected(data.error());
  array = make_floats(header, std::move(*data));
  return {};
}

Result<Array> NpzSource::read(size_t index) const {
  Array array;
  if (Status status = fill(index, headers_[index], array); !status) {
    const std::string file = arrays_[index].array.name + std::string(kSuffix);
    return wrong(fmt::format("member {}: {}", quote(file), status.error().message));
  }
  return array;
}

/// Adds a stored member. `bytes` must outlive the archive.
Status add_member(zip_t* archive, const std::string& name, const std::string& bytes) {
  zip_source_t* source = zip().source_buffer(archive, bytes.data(), bytes.size(), 0);
  if (source == nullptr) return fail("{}", zip().strerror(archive));
  const std::string file = name + std::string(kSuffix);
  const zip_int64_t index = zip().file_add(archive, file.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip().source_free(source);  // still ours
    return fail("member {}: {}", quote(file), zip().strerror(archive));
  }
  const auto member = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kFirstDay = 0x21;  // 1 January 1980, for the same bytes at any time
  if (zip().set_file_compression(archive, member, ZIP_CM_STORE, 0) != 0 ||
      zip().file_set_dostime(archive, member, 0, kFirstDay, 0) != 0) {
    return fail("member {}: {}", quote(file), zip().strerror(archive));
  }
  return {};
}

/// All bytes of a source that an archive was written to.
Result<std::string> read_source(zip_source_t* source) {
  zip_stat_t info{};
  const auto problem = [source] {
    return fail("{}", zip().error_strerror(zip().source_error(source)));
  };
  if (zip().source_stat(source, &info) != 0 || zip().source_open(source) != 0) return problem();
  std::string bytes(info.size, '\0');
  const zip_int64_t count = zip().source_read(source, bytes.data(), bytes.size());
  zip().source_close(source);
  if (count < 0 || static_cast<zip_uint64_t>(count) != info.size) return problem();
  return bytes;
}

/// An archive without members has no bytes to libzip; this is what NumPy writes: the end record.
std::string empty_archive() {
  std::string bytes = "PK\x05\x06";
  bytes.append(18, '\0');
  return bytes;
}

Result<std::string> format(const std::vector<NamedArray>& arrays) {
  if (arrays.empty()) return empty_archive();
  if (Status opened = open_zip(); !opened) return tl::unexpected(opened.error());
  ZipError error;
  const SourceHandle target(zip().source_buffer_create(nullptr, 0, 0, error.get()));
  if (!target) return fail("{}", error.text());
  Result<Archive> archive = open_archive(target.get(), ZIP_TRUNCATE);
  if (!archive) return tl::unexpected(archive.error());
  std::vector<std::string> members;
  members.reserve(arrays.size());
  for (const NamedArray& array : arrays) {
    if (Status whole = array.array.check(); !whole) {
      return fail("array {} {}", quote(array.name), whole.error().message);
    }
    members.push_back(format_npy(array.array));
    if (Status status = add_member(archive->get(), array.name, members.back()); !status) {
      return tl::unexpected(status.error());
    }
  }
  if (zip().close(archive->get()) != 0) return fail("{}", zip().strerror(archive->get()));
  archive->release();  // closing has freed it
  return read_source(target.get());
}

}  // namespace

Result<std::unique_ptr<ArraySource>> open_npz(ByteSource bytes, std::string_view name) {
  auto source = std::make_unique<NpzSource>(name);
  if (Status status = source->open(bytes); !status) return tl::unexpected(status.error());
  return source;
}

Result<std::vector<NamedArray>> parse_npz(std::string_view bytes, std::string_view name) {
  const auto source = open_npz(ByteSource(bytes), name);
  return source ? read_all(**source, name) : tl::unexpected(source.error());
}

Result<std::vector<NamedArray>> read_npz(const std::filesystem::path& path) {
  Result<ByteSource> bytes = ByteSource::open(path);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto source = open_npz(std::move(*bytes), path.string());
  return source ? read_all(**source, path.string()) : tl::unexpected(source.error());
}

Result<std::string> format_npz(const std::vector<NamedArray>& arrays) {
  Result<std::string> bytes = format(arrays);
  if (!bytes) return fail("cannot make a .npz file: {}", bytes.error().message);
  return bytes;
}

}  // namespace rnnc
