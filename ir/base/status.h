/// Errors as values. The library never prints or exits: every call that can fail returns a `Result`,
/// whose error is text that is ready to be shown to a user. What alone is thrown, but not out of a
/// Program or through the C API, is an InternalError.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rnnc {

/// What a program can do about a failure.
enum class ErrorKind : uint8_t {
  Invalid,       // what was given is wrong
  InvalidText,   // a .rnn text has errors
  NotPrepared,   // a shape has to be prepared first
  NotSupported,  // rnnc, or this build of it, cannot do that
  NoDevice,      // there is no such device, or it cannot be used
  OutOfMemory,
  Device,    // a device has failed
  Internal,  // a bug in rnnc: InternalError
};

/// A failure, in words for the user: what was wrong, where, and what would be right.
/// May hold several lines when several things are wrong at once. Ends without a newline.
struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::Invalid;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

/// `return fail("batch must be at least 1, got {}", batch);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(Error{fmt::format(format, std::forward<Args>(args)...)});
}

/// Likewise, of another kind than Invalid.
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail_as(ErrorKind kind, fmt::format_string<Args...> format,
                                            Args&&... args) {
  return tl::unexpected(Error{fmt::format(format, std::forward<Args>(args)...), kind});
}

/// A broken invariant of rnnc itself. What it passes through is left as it is, and must not be used
/// any more: Programs and the C API make an error of it and refuse further calls.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws an InternalError: "this is a bug in rnnc", with where it was noticed.
[[noreturn]] void internal_error(const char* file, int line, const std::string& what);

}  // namespace rnnc

/// Checks an invariant of rnnc itself, in every build. User mistakes are `Result`s, never this.
#define RNNC_CHECK(condition, ...)                                                 \
  do {                                                                             \
    if (!(condition)) [[unlikely]]                                                 \
      ::rnnc::internal_error(__FILE__, __LINE__,                                   \
                             "`" #condition "` " + ::fmt::format("" __VA_ARGS__)); \
  } while (false)
