#include "runtime/npz.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <set>

#include "runtime/describe.h"
#include "runtime/files.h"
#include "runtime/host_memory.h"
#include "runtime/npy.h"

namespace rnnc {
namespace {

constexpr std::string_view kSuffix = ".npy";
/// Deflate never packs more bytes into one than this (https://zlib.net/zlib_tech.html).
constexpr uint64_t kGreatestRatio = 1032;

/// libzip's errors, as a value that frees itself.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;

  zip_error_t* get() { return &error_; }
  std::string text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_{};
};

struct SourceDeleter {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
struct ArchiveDeleter {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct MemberDeleter {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using SourceHandle = std::unique_ptr<zip_source_t, SourceDeleter>;
using Archive = std::unique_ptr<zip_t, ArchiveDeleter>;
using Member = std::unique_ptr<zip_file_t, MemberDeleter>;

/// An archive that reads `source` or is to be written to it.
Result<Archive> open_archive(zip_source_t* source, int flags) {
  ZipError error;
  zip_source_keep(source);  // the archive's own reference, beside the caller's
  Archive archive(zip_open_from_source(source, flags, error.get()));
  if (archive) return archive;
  zip_source_free(source);
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

Result<std::string> read_member(zip_t* archive, zip_uint64_t index, const zip_stat_t& info) {
  const Member member(zip_fopen_index(archive, index, 0));
  if (!member) return fail("{}", zip_strerror(archive));
  std::string bytes(info.size + 1, '\0');  // one more, to see whether there is more
  zip_uint64_t used = 0;
  while (used < bytes.size()) {
    const zip_int64_t count = zip_fread(member.get(), bytes.data() + used, bytes.size() - used);
    if (count < 0) return fail("{}", zip_file_strerror(member.get()));
    if (count == 0) break;
    used += static_cast<zip_uint64_t>(count);
  }
  if (used != info.size) return fail("it does not hold the {} bytes that it claims", info.size);
  bytes.resize(used);
  return bytes;
}

/// The members of one archive, one after the other.
class Reader {
 public:
  Reader(zip_t* archive, uint64_t file_bytes) : archive_(archive), file_bytes_(file_bytes) {}

  Result<std::vector<NamedArray>> read() {
    const zip_int64_t count = zip_get_num_entries(archive_, 0);
    for (zip_int64_t i = 0; i < count; ++i) {
      if (Status status = add(static_cast<zip_uint64_t>(i)); !status) {
        return tl::unexpected(status.error());
      }
    }
    return std::move(arrays_);
  }

 private:
  Status add(zip_uint64_t index) {
    zip_stat_t info{};
    if (zip_stat_index(archive_, index, 0, &info) != 0) {
      return fail("member {}: {}", index, zip_strerror(archive_));
    }
    const std::string_view file = info.name;
    if (Status status = check_member(info, file_bytes_); !status) {
      return fail("member {}: {}", quote(file), status.error().message);
    }
    if (!file.ends_with(kSuffix)) return fail("its member {} is not a .npy file", quote(file));
    const std::string_view name = file.substr(0, file.size() - kSuffix.size());
    if (!names_.emplace(name).second) return fail("it has two members {}", quote(file));
    // Members that share the same bytes could unpack to any size.
    packed_bytes_ += info.comp_size;
    if (packed_bytes_ > file_bytes_) return fail("its members overlap");
    bytes_ += info.size;
    Status fits = check_host_memory("its arrays take", static_cast<int64_t>(bytes_));
    if (!fits) return fits;

    const Result<std::string> bytes = read_member(archive_, index, info);
    if (!bytes) return fail("member {}: {}", quote(file), bytes.error().message);
    Result<Array> array = parse_npy(*bytes, file);
    if (!array) return fail("its member {}", array.error().message);
    arrays_.push_back({std::string(name), std::move(*array)});
    return {};
  }

  zip_t* archive_;
  uint64_t file_bytes_;
  uint64_t packed_bytes_ = 0;
  uint64_t bytes_ = 0;
  std::set<std::string, std::less<>> names_;
  std::vector<NamedArray> arrays_;
};

Result<std::vector<NamedArray>> parse(std::string_view bytes) {
  // To libzip no bytes are an archive without members.
  if (!bytes.starts_with("PK")) return fail("it is not a zip archive");
  ZipError error;
  const SourceHandle source(zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get()));
  if (!source) return fail("{}", error.text());
  const Result<Archive> archive = open_archive(source.get(), ZIP_RDONLY);
  if (!archive) return tl::unexpected(archive.error());
  return Reader(archive->get(), bytes.size()).read();
}

/// Adds a stored member. `bytes` must outlive the archive.
Status add_member(zip_t* archive, const std::string& name, const std::string& bytes) {
  zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
  if (source == nullptr) return fail("{}", zip_strerror(archive));
  const std::string file = name + std::string(kSuffix);
  const zip_int64_t index = zip_file_add(archive, file.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);  // still ours
    return fail("member {}: {}", quote(file), zip_strerror(archive));
  }
  const auto member = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t kFirstDay = 0x21;  // 1 January 1980, for the same bytes at any time
  if (zip_set_file_compression(archive, member, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, member, 0, kFirstDay, 0) != 0) {
    return fail("member {}: {}", quote(file), zip_strerror(archive));
  }
  return {};
}

/// All bytes of a source that an archive was written to.
Result<std::string> read_source(zip_source_t* source) {
  zip_stat_t info{};
  const auto problem = [source] {
    return fail("{}", zip_error_strerror(zip_source_error(source)));
  };
  if (zip_source_stat(source, &info) != 0 || zip_source_open(source) != 0) return problem();
  std::string bytes(info.size, '\0');
  const zip_int64_t count = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
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
  ZipError error;
  const SourceHandle target(zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (!target) return fail("{}", error.text());
  Result<Archive> archive = open_archive(target.get(), ZIP_TRUNCATE);
  if (!archive) return tl::unexpected(archive.error());
  std::vector<std::string> members;
  members.reserve(arrays.size());
  for (const NamedArray& array : arrays) {
    members.push_back(format_npy(array.array));
    if (Status status = add_member(archive->get(), array.name, members.back()); !status) {
      return tl::unexpected(status.error());
    }
  }
  if (zip_close(archive->get()) != 0) return fail("{}", zip_strerror(archive->get()));
  archive->release();  // closing has freed it
  return read_source(target.get());
}

}  // namespace

Result<std::vector<NamedArray>> parse_npz(std::string_view bytes, std::string_view name) {
  Result<std::vector<NamedArray>> arrays = parse(bytes);
  if (arrays) return arrays;
  return fail("{} is not a .npz file that can be read: {}", quote(name), arrays.error().message);
}

Result<std::vector<NamedArray>> read_npz(const std::filesystem::path& path) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return tl::unexpected(bytes.error());
  return parse_npz(*bytes, path.string());
}

Result<std::string> format_npz(const std::vector<NamedArray>& arrays) {
  Result<std::string> bytes = format(arrays);
  if (!bytes) return fail("cannot make a .npz file: {}", bytes.error().message);
  return bytes;
}

}  // namespace rnnc
