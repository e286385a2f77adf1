#include "runtime/capi/border.h"

#include <fmt/format.h>

#include <iterator>

#include "runtime/backend/device.h"
#include "runtime/backend/generator.h"

namespace rnnc::capi {
namespace {

constexpr size_t kMostMessage = 1 << 16;

/// Fixed memory, so that keeping an error never fails; longer ones are cut.
struct LastError {
  char text[kMostMessage] = "";
};
thread_local LastError last_error;

constexpr const char* kNames[] = {"RNNC_OK",
                                  "RNNC_INVALID_ARGUMENT",
                                  "RNNC_INVALID_TEXT",
                                  "RNNC_NOT_PREPARED",
                                  "RNNC_NOT_SUPPORTED",
                                  "RNNC_NO_DEVICE",
                                  "RNNC_OUT_OF_MEMORY",
                                  "RNNC_DEVICE_ERROR",
                                  "RNNC_INTERNAL"};

}  // namespace

rnnc_status refuse(rnnc_status status, std::string_view message) noexcept {
  const size_t size = std::min(message.size(), kMostMessage - 1);
  std::memcpy(last_error.text, message.data(), size);
  last_error.text[size] = '\0';
  return status;
}

rnnc_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Invalid:
      return RNNC_INVALID_ARGUMENT;
    case ErrorKind::InvalidText:
      return RNNC_INVALID_TEXT;
    case ErrorKind::NotPrepared:
      return RNNC_NOT_PREPARED;
    case ErrorKind::NotSupported:
      return RNNC_NOT_SUPPORTED;
    case ErrorKind::NoDevice:
      return RNNC_NO_DEVICE;
    case ErrorKind::OutOfMemory:
      return RNNC_OUT_OF_MEMORY;
    case ErrorKind::Device:
      return RNNC_DEVICE_ERROR;
    case ErrorKind::Internal:
      return RNNC_INTERNAL;
  }
  return RNNC_INTERNAL;
}

}  // namespace rnnc::capi

using rnnc::capi::call;
using rnnc::capi::give;

uint32_t rnnc_version(void) {
  return RNNC_VERSION_MAJOR << 16 | RNNC_VERSION_MINOR << 8 | RNNC_VERSION_PATCH;
}

const char* rnnc_build(void) {
  static const std::string name(rnnc::planner_hash());
  return name.c_str();
}

const char* rnnc_status_name(rnnc_status status) {
  const uint32_t index = rnnc::capi::number_of(status);
  return index < std::size(rnnc::capi::kNames) ? rnnc::capi::kNames[index] : "unknown";
}

const char* rnnc_last_error(void) {
  return rnnc::capi::last_error.text;
}

const char* rnnc_text_data(const rnnc_text* text) {
  return text == nullptr ? "" : text->text.c_str();
}

size_t rnnc_text_size(const rnnc_text* text) {
  return text == nullptr ? 0 : text->text.size();
}

void rnnc_text_free(rnnc_text* text) {
  delete text;
}

rnnc_status rnnc_library_folder(const char* folder) {
  return call([&] {
    rnnc::Status given = rnnc::capi::check_given({{folder, "folder"}});
    return given ? rnnc::add_library_folder(folder) : given;
  });
}

rnnc_status rnnc_devices(rnnc_text** devices) {
  return call([&] {
    return give(devices, "devices", []() -> rnnc::Result<rnnc_text*> {
      std::string text;
      for (const rnnc::DeviceDescription& device : rnnc::list_devices()) {
        text += fmt::format("{}\t{}\t{}\n", device.name, device.usable ? "usable" : device.reason,
                            device.detail);
      }
      return new rnnc_text{std::move(text)};
    });
  });
}
