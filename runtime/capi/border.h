/// What every function of the C API goes through: no exception passes, and what went wrong is the
/// thread's last error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/capi/rnnc.h"

/// As C sees a text.
struct rnnc_text {
  std::string text;
};

namespace rnnc::capi {

/// Keeps the words for rnnc_last_error.
rnnc_status refuse(rnnc_status status, std::string_view message) noexcept;
rnnc_status status_of(ErrorKind kind);

/// The number in an enum of C, which holds any; to read others than its values as an enum is undefined in C++.
template <typename Enum>
uint32_t number_of(const Enum& value) {
  uint32_t number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// `work()`, a Status, as C's status.
template <typename Work>
rnnc_status call(const Work& work) noexcept {
  try {
    const Status status = work();
    return status ? RNNC_OK : refuse(status_of(status.error().kind), status.error().message);
  } catch (const std::bad_alloc&) {
    return refuse(RNNC_OUT_OF_MEMORY, "not enough memory");
  } catch (const std::exception& exception) {
    return refuse(RNNC_INTERNAL, exception.what());
  } catch (...) {
    return refuse(RNNC_INTERNAL, "this is a bug in rnnc: an exception of no known type");
  }
}

/// An error that names the argument, if one is NULL.
inline Status check_given(std::initializer_list<std::pair<const void*, std::string_view>> all) {
  for (const auto& [pointer, name] : all) {
    if (pointer == nullptr) return fail("`{}` is NULL", name);
  }
  return {};
}

/// Sets `*out` to what `work()` gives, a Result; to NULL or 0 where that fails.
template <typename Value, typename Work>
Status give(Value* out, std::string_view name, const Work& work) {
  if (out == nullptr) return fail("`{}` is NULL", name);
  *out = {};
  Result<Value> made = work();
  if (!made) return tl::unexpected(made.error());
  *out = *made;
  return {};
}

/// A struct of this header or an older one, with zeros for what that does not have.
template <typename Struct>
Status read_struct(const Struct* given, std::string_view name, Struct& complete) {
  complete = {};
  if (Status status = check_given({{given, name}}); !status) return status;
  const size_t bytes = given->struct_size;
  if (bytes <= sizeof(size_t) || bytes > sizeof(Struct)) {
    return fail("`{}` says that its struct_size is {}; this library knows sizes up to {}", name,
                bytes, sizeof(Struct));
  }
  std::memcpy(&complete, given, bytes);
  return {};
}

/// Writes what the caller's struct has room for; its size stays.
template <typename Struct>
Status write_struct(Struct* given, std::string_view name, Struct values) {
  Struct known;
  if (Status status = read_struct(given, name, known); !status) return status;
  values.struct_size = known.struct_size;
  std::memcpy(given, &values, known.struct_size);
  return {};
}

}  // namespace rnnc::capi
