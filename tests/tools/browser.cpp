#include "tests/tools/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/runtime/temporary_directory.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

/// Whether an expression has no value because its page went meanwhile: who waits for one asks again.
bool is_of_navigation(const Json& error) {
  return error.value("message", "").find("navigated or closed") != std::string::npos;
}

constexpr int kControl = 2;

[[noreturn]] void become_browser(const std::string& name, const std::filesystem::path& folder,
                                 int input, int output) {
  const std::string profile = "--user-data-dir=" + (folder / "profile").string();
  const int log = ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::setpgid(0, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  // Where the protocol has them, whatever is there now.
  const int in = ::fcntl(input, F_DUPFD, 10);
  const int out = ::fcntl(output, F_DUPFD, 10);
  ::dup2(in, 3);
  ::dup2(out, 4);
  ::execlp(name.c_str(), name.c_str(), "--headless", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--remote-debugging-pipe", profile.c_str(),
           static_cast<char*>(nullptr));
  ::_exit(127);
}

std::string decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(digit));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

}  // namespace

std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::system(fmt::format("command -v {} >/dev/null 2>&1", name).c_str()) == 0) return name;
  }
  return "";
}

std::string find_axe() {
  const std::filesystem::path file = RNNC_BINARY_DIR "/axe/axe_playwright_python/axe.min.js";
  return std::filesystem::exists(file) ? TemporaryDirectory::read(file) : "";
}

Browser::Browser(const std::string& name, const std::filesystem::path& folder) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) become_browser(name, folder, in[0], out[1]);
  ::close(in[0]);
  ::close(out[1]);
  to_browser_ = in[1];
  from_browser_ = out[0];
  const Json target = call("Target.createTarget", {{"url", "about:blank"}});
  session_ =
      call("Target.attachToTarget", {{"targetId", target.value("targetId", "")}, {"flatten", true}})
          .value("sessionId", "");
}

Browser::~Browser() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(to_browser_);
  ::close(from_browser_);
}

Json Browser::read() {
  for (;;) {
    if (const size_t end = read_.find('\0'); end != read_.npos) {
      const Json message = Json::parse(read_.substr(0, end), nullptr, false);
      read_.erase(0, end + 1);
      return message;
    }
    pollfd input{from_browser_, POLLIN, 0};
    char bytes[1 << 16];
    const ssize_t count =
        ::poll(&input, 1, 60'000) > 0 ? ::read(from_browser_, bytes, sizeof bytes) : 0;
    if (count <= 0) {
      ADD_FAILURE() << "the browser does not answer";
      return {};
    }
    read_.append(bytes, static_cast<size_t>(count));
  }
}

Json Browser::call(const std::string& method, Json parameters) {
  Json message = {{"id", ++calls_}, {"method", method}, {"params", std::move(parameters)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t count = ::write(to_browser_, text.data() + sent, text.size() - sent);
    if (count <= 0) return {};
    sent += static_cast<size_t>(count);
  }
  for (;;) {
    const Json answer = read();
    if (answer.is_null()) return Json::object();
    if (answer.value("id", 0) != calls_) continue;  // an event
    if (answer.contains("error") && is_of_navigation(answer["error"])) return Json::object();
    EXPECT_FALSE(answer.contains("error")) << method << ": " << answer["error"];
    return answer.value("result", Json::object());
  }
}

void Browser::open(const std::string& address) {
  call("Page.navigate", {{"url", address}});
  becomes("document.readyState === 'complete' && location.href !== 'about:blank'");
}

Json Browser::evaluate(const std::string& expression) {
  const Json answer = call("Runtime.evaluate", {{"expression", expression},
                                                {"awaitPromise", true},
                                                {"userGesture", true},
                                                {"returnByValue", true}});
  if (answer.contains("exceptionDetails")) return answer["exceptionDetails"].dump();
  return answer.value("result", Json::object()).value("value", Json());
}

bool Browser::becomes(const std::string& expression) {
  for (int tries = 0; tries < 400; ++tries) {
    if (evaluate(expression) == true) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

void Browser::type(const std::string& text) {
  for (const char letter : text) {
    const std::string key(1, letter);
    call("Input.dispatchKeyEvent", {{"type", "keyDown"}, {"key", key}, {"text", key}});
    call("Input.dispatchKeyEvent", {{"type", "keyUp"}, {"key", key}});
  }
}

void Browser::press(const std::string& key, bool control) {
  Json event = {{"type", "keyDown"}, {"key", key}, {"modifiers", control ? kControl : 0}};
  if (key == "Enter" && !control) event["text"] = "\r";
  call("Input.dispatchKeyEvent", event);
  event["type"] = "keyUp";
  event.erase("text");
  call("Input.dispatchKeyEvent", event);
}

void Browser::move_mouse(double x, double y) {
  call("Input.dispatchMouseEvent", {{"type", "mouseMoved"}, {"x", x}, {"y", y}});
}

void Browser::resize(int width, int height) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
}

void Browser::prefer(const std::string& scheme) {
  const Json feature = {{"name", "prefers-color-scheme"}, {"value", scheme}};
  call("Emulation.setEmulatedMedia", {{"features", Json::array({feature})}});
}

std::string Browser::broken_rules(const std::string& axe) {
  evaluate(axe + ";0");
  const Json report = evaluate(
      "axe.run(document).then(({ violations, passes }) => ({ passes: passes.length, broken: "
      "violations.map(({ id, nodes }) => "
      "`${id} ${nodes.length} ${nodes[0].html} ${nodes[0].failureSummary}`).join('\\n') }))");
  if (!report.is_object()) return report.dump();
  EXPECT_GT(report["passes"], 15);
  return report["broken"];
}

void Browser::save_picture(const std::filesystem::path& file) {
  const Json picture = call("Page.captureScreenshot", {{"format", "png"}});
  std::ofstream(file, std::ios::binary) << decode_base64(picture.value("data", ""));
}

}  // namespace rnnc::test
