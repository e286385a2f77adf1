#include "runtime/arrays/npz.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/arrays/npy.h"
#include "runtime/arrays/zip_library.h"
#include "runtime/base/files.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

using test::TemporaryDirectory;

const std::filesystem::path kData = std::filesystem::path(RNNC_SOURCE_DIR) / "tests/runtime/data";

Array array_of(std::vector<double> values, std::vector<int64_t> shape, DType dtype = DType::f32) {
  return Array::from_doubles(values, std::move(shape), dtype);
}

std::string format(const std::vector<NamedArray>& arrays) {
  const Result<std::string> bytes = format_npz(arrays);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes.value_or("");
}

std::string npz_problem(const std::string& bytes) {
  const Result<std::vector<NamedArray>> arrays = parse_npz(bytes, "s.npz");
  EXPECT_FALSE(arrays);
  if (arrays) return "";
  const std::string prefix = "`s.npz` is not a .npz file that can be read: ";
  EXPECT_EQ(arrays.error().message.substr(0, prefix.size()), prefix);
  return arrays.error().message.substr(prefix.size());
}

/// A zip archive by hand, so that it may lie. Fields are where the format has them
/// (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3).
struct Member {
  std::string name;
  std::string data;     // as packed
  uint32_t size = 0;    // claimed, unpacked
  uint16_t method = 0;  // 8: deflate
  uint16_t flags = 0;   // 1: encrypted
  uint32_t crc = 0;
};

std::string number(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

uint32_t crc32(const std::string& bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

Member stored(std::string name, const std::string& data) {
  return {std::move(name), data, static_cast<uint32_t>(data.size()), 0, 0, crc32(data)};
}

/// `shared`: all entries of the directory are about the first member's bytes.
std::string zip(const std::vector<Member>& members, bool shared = false) {
  std::string bytes;
  std::string directory;
  for (const Member& member : members) {
    const std::string fields =
        number(member.flags, 2) + number(member.method, 2) + number(0, 4) + number(member.crc, 4) +
        number(static_cast<uint32_t>(member.data.size()), 4) + number(member.size, 4) +
        number(static_cast<uint32_t>(member.name.size()), 2) + number(0, 2);
    const auto offset = static_cast<uint32_t>(shared ? 0 : bytes.size());
    if (!shared || bytes.empty()) {
      bytes += "PK\x03\x04" + number(20, 2) + fields + member.name + member.data;
    }
    directory += "PK\x01\x02" + number(20, 2) + number(20, 2) + fields + number(0, 10) +
                 number(offset, 4) + member.name;
  }
  const auto count = static_cast<uint32_t>(members.size());
  return bytes + directory + "PK\x05\x06" + number(0, 4) + number(count, 2) + number(count, 2) +
         number(static_cast<uint32_t>(directory.size()), 4) +
         number(static_cast<uint32_t>(bytes.size()), 4) + number(0, 2);
}

TEST(Npz, ReadsWhatNumpyWrites) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    const Result<std::vector<NamedArray>> arrays = read_npz(kData / file);
    ASSERT_TRUE(arrays) << arrays.error().message;
    std::vector<std::string> names;
    for (const NamedArray& array : *arrays) names.push_back(array.name);
    EXPECT_EQ(names, (std::vector<std::string>{"h", "h@2", "LSTM.0.c", "größe", "empty", "zeros"}));
    const auto expect = [&](size_t index, DType dtype, std::vector<int64_t> shape,
                            std::vector<double> values) {
      const Array& array = (*arrays)[index].array;
      EXPECT_EQ(array.dtype, dtype) << index;
      EXPECT_EQ(array.shape, shape) << index;
      EXPECT_EQ(array.to_doubles(), values) << index;
    };
    expect(0, DType::f32, {2, 3}, {0, 0.25, 0.5, 0.75, 1, 1.25});
    expect(1, DType::f64, {3, 2}, {0, 1, 2, 3, 4, 5});
    expect(2, DType::f64, {2}, {1.5, -2});
    expect(3, DType::f16, {}, {0.5});
    expect(4, DType::f32, {0, 3}, {});
    expect(5, DType::f32, {1000}, std::vector<double>(1000, 0));
  }
}

TEST(Npz, WritesWhatItReads) {
  const std::vector<NamedArray> arrays = {{"h", array_of({1, 2, 3}, {3, 1})},
                                          {"LSTM.0.h@2", array_of({0.1, -0.2}, {2}, DType::f64)},
                                          {"größe", array_of({5}, {})},
                                          {"empty", array_of({}, {0, 4}, DType::f64)}};
  const std::string bytes = format(arrays);
  EXPECT_EQ(format(arrays), bytes);
  const Result<std::vector<NamedArray>> back = parse_npz(bytes, "s.npz");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ((*back)[i].name, arrays[i].name);
    EXPECT_EQ((*back)[i].array.dtype, arrays[i].array.dtype);
    EXPECT_EQ((*back)[i].array.shape, arrays[i].array.shape);
    EXPECT_EQ((*back)[i].array.data, arrays[i].array.data);
  }
}

TEST(Npz, FilesWithoutArraysAreLegal) {
  const std::string bytes = format({});
  EXPECT_EQ(bytes, zip({}));
  EXPECT_EQ(parse_npz(bytes, "s.npz")->size(), 0U);
}

TEST(Npz, RefusesToWriteTwoArraysOfOneName) {
  const NamedArray h{"h", array_of({1}, {1})};
  EXPECT_EQ(format_npz({h, h}).error().message,
            "cannot make a .npz file: member `h.npy`: File already exists");
}

TEST(Npz, RefusesToWriteArraysThatAreNotWhole) {
  EXPECT_EQ(format_npz({{"h", Array{DType::f32, {3}, {}}}}).error().message,
            "cannot make a .npz file: array `h` has 0 bytes, but [3] in f32 takes 12");
}

TEST(Npz, RejectsWhatIsNoArchive) {
  EXPECT_EQ(npz_problem(""), "it is not a zip archive");
  EXPECT_EQ(npz_problem("\x93NUMPY\x01"), "it is not a zip archive");
  EXPECT_EQ(npz_problem(std::string(100000, 'P')), "it is not a zip archive");
  EXPECT_EQ(npz_problem("PK\x03\x04" + std::string(100, '\0')), "Not a zip archive");
}

TEST(Npz, RejectsMembersThatAreNoArrays) {
  const std::string npy = format_npy(array_of({1, 2}, {2}));
  EXPECT_TRUE(parse_npz(zip({stored("x.npy", npy)}), "s.npz"));
  EXPECT_EQ(npz_problem(zip({stored("x.txt", "hello")})), "its member `x.txt` is not a .npy file");
  EXPECT_EQ(npz_problem(zip({stored("d/", "")})), "its member `d/` is not a .npy file");
  EXPECT_EQ(npz_problem(zip({stored("x.npy", "hello")})),
            "its member `x.npy` is not a .npy file that can be read: it does not start with "
            "NumPy's magic bytes");
  EXPECT_EQ(npz_problem(zip({stored("x.npy", npy), stored("x.npy", npy)})),
            "it has two members `x.npy`");
  Member bzip2 = stored("x.npy", npy);
  bzip2.method = 12;
  EXPECT_EQ(npz_problem(zip({bzip2})),
            "member `x.npy`: its compression method 12 is neither stored nor deflated");
  Member encrypted = stored("x.npy", npy);
  encrypted.flags = 1;
  EXPECT_EQ(npz_problem(zip({encrypted})), "member `x.npy`: it is encrypted");
}

TEST(Npz, NeverTrustsSizes) {
  const std::string npy = format_npy(array_of({1, 2}, {2}));
  Member huge = stored("x.npy", npy);
  huge.size = 0xfffffff0;
  EXPECT_EQ(npz_problem(zip({huge})), "member `x.npy`: it claims to hold 4294967280 bytes in 136");
  Member bomb = stored("x.npy", npy);
  bomb.method = 8;
  bomb.size = 1032 * 137;
  EXPECT_EQ(npz_problem(zip({bomb})), "member `x.npy`: it claims to hold 141384 bytes in 136");
  Member damaged = stored("x.npy", npy);
  damaged.crc ^= 1;
  EXPECT_EQ(npz_problem(zip({damaged})), "member `x.npy`: CRC error");
  Member nonsense = damaged;
  nonsense.method = 8;
  EXPECT_EQ(npz_problem(zip({nonsense})).substr(0, 19), "its member `x.npy` ");
}

TEST(Npz, MembersThatShareTheirBytesAreRefused) {
  // As in bombs that name the same bytes a thousand times.
  const std::string npy = format_npy(array_of(std::vector<double>(500, 0), {500}));
  EXPECT_EQ(npz_problem(zip({stored("a.npy", npy), stored("b.npy", npy)}, true)),
            "its members overlap");
}

TEST(Npz, MembersHoldWhatTheyClaim) {
  const std::string npy = format_npy(array_of({1, 2}, {2}));
  Member more = stored("x.npy", npy);
  more.size -= 1;
  EXPECT_EQ(npz_problem(zip({more})),
            "its member `x.npy` is not a .npy file that can be read: it is cut short: float32 "
            "elements of shape [2] need more than the 7 bytes that are there");
  // Three elements, of which two are there, as one block of deflate that is not packed.
  const std::string two = format_npy(array_of({1, 2, 3}, {3})).substr(0, 136);
  Member less = stored("x.npy", two);
  less.method = 8;
  less.data = '\x01' + number(136, 2) + number(~136U, 2) + two;
  less.size = 140;
  EXPECT_EQ(npz_problem(zip({less})),
            "member `x.npy`: it does not hold the 140 bytes that it claims");
  Member long_member = stored("x.npy", npy);
  std::string bytes = zip({long_member});
  // The directory's size of the packed member.
  const size_t place = bytes.find("PK\x01\x02") + 20;
  bytes.replace(place, 4, number(1 << 20, 4));
  EXPECT_EQ(npz_problem(bytes),
            "member `x.npy`: its 1048576 bytes are more than the 244 of the file");
}

TEST(Npz, EveryTruncationIsAnError) {
  const std::string whole =
      format({{"h", array_of({1, 2, 3}, {3, 1})}, {"c", array_of({1}, {1}, DType::f64)}});
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_npz(whole.substr(0, size), "s.npz")) << size;
  }
}

TEST(Npz, NoByteThatIsChangedCrashes) {
  const std::string whole = format({{"h", array_of({1, 2, 3}, {3, 1})}});
  for (size_t place = 0; place < whole.size(); ++place) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string bytes = whole;
      bytes[place] = static_cast<char>(bytes[place] ^ change);
      const Result<std::vector<NamedArray>> arrays = parse_npz(bytes, "s.npz");
      if (!arrays) {
        EXPECT_EQ(arrays.error().message.find('\n'), std::string::npos) << arrays.error().message;
      }
    }
  }
}

TEST(Npz, SaysWhichFileCannotBeRead) {
  EXPECT_EQ(read_npz("no/such.npz").error().message,
            "cannot read `no/such.npz`: No such file or directory");
}

TEST(Npz, SaysThatLibzipIsMissing) {
  const std::string message = load_zip("libnone.so.1").error().message;
  EXPECT_TRUE(message.starts_with(".npz files need libzip, which cannot be loaded: libnone.so.1: "))
      << message;
}

}  // namespace
}  // namespace rnnc
