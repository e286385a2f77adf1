#include <algorithm>

#include "runtime/backend/device.h"
#include "tools/command.h"

namespace rnnc::tools {
namespace {

int run_devices() {
  const std::vector<DeviceDescription> devices = list_devices();
  size_t width = 0;
  for (const DeviceDescription& device : devices) width = std::max(width, device.name.size());
  std::string text;
  for (const DeviceDescription& device : devices) {
    const std::string state = device.usable ? "" : fmt::format("not usable: {}", device.reason);
    const char* separator = state.empty() || device.detail.empty() ? "" : "; ";
    text += fmt::format("{:{}}  {}{}{}\n", device.name, width, device.detail, separator, state);
  }
  const Status status = print(text);
  return status ? kOk : report(status.error());
}

}  // namespace

void add_devices(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("devices", "List the devices that programs can run on");
  command->footer("Example:\n  rnnc devices");
  command->callback([&exit_code] { exit_code = run_devices(); });
}

}  // namespace rnnc::tools
