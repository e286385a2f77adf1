#include "tests/tools/serve_support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

namespace rnnc::test {
namespace {

[[noreturn]] void become_server(const std::filesystem::path& directory,
                                const std::vector<std::string>& words, int output) {
  std::vector<std::string> arguments = {RNNC_BINARY_DIR "/tools/rnnc", "serve"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int null = ::open("/dev/null", O_RDONLY);
  const int errors =
      ::open((directory / "serve.errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(null, 0);
  ::dup2(output, 1);
  ::dup2(errors, 2);
  if (::chdir(directory.c_str()) == 0) ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

}  // namespace

Connection::Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

Connection::~Connection() {
  ::close(socket_);
}

bool Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::string Connection::read(std::chrono::milliseconds most) const {
  const auto end = std::chrono::steady_clock::now() + most;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd input{socket_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&input, 1, static_cast<int>(left.count())) <= 0) return text;
    char bytes[1 << 16];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return text;
    text.append(bytes, static_cast<size_t>(count));
  }
}

RunningServer::RunningServer(const std::filesystem::path& directory,
                             std::vector<std::string> words) {
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) become_server(directory, words, output[1]);
  ::close(output[1]);
  for (char byte = 0; ::read(output[0], &byte, 1) == 1 && byte != '\n';) address_ += byte;
  ::close(output[0]);
  const std::string begin = "http://127.0.0.1:";
  EXPECT_TRUE(address_.starts_with(begin)) << address_;
  if (address_.starts_with(begin)) port_ = std::atoi(address_.c_str() + begin.size());
}

RunningServer::~RunningServer() {
  if (pid_ > 0) stop(SIGKILL);
}

std::string RunningServer::token() const {
  const size_t begin = address_.find('/', 7) + 1;
  return address_.substr(begin, address_.size() - begin - 1);
}

std::vector<int> RunningServer::children() const {
  std::vector<int> children;
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid_));
  for (int child = 0; file >> child;) children.push_back(child);
  return children;
}

std::string RunningServer::request(const std::string& method, const std::string& path,
                                   const std::string& body, const std::string& headers) const {
  std::string text = fmt::format("{} /{}/{} HTTP/1.1\r\n", method, token(), path);
  const auto add = [&](const std::string& name, const std::string& value) {
    if (headers.find(name + ":") == headers.npos) text += fmt::format("{}: {}\r\n", name, value);
  };
  add("Host", fmt::format("127.0.0.1:{}", port_));
  if (method == "POST") {
    add("Origin", fmt::format("http://127.0.0.1:{}", port_));
    add("Content-Type", "application/json");
    add("Content-Length", std::to_string(body.size()));
  }
  return text + headers + "\r\n" + body;
}

RunningServer::Response RunningServer::send(std::string_view bytes) const {
  const Connection connection(port_);
  connection.send(bytes);
  const std::string text = connection.read();
  Response response;
  if (!text.starts_with("HTTP/1.1 ")) return response;
  response.status = std::atoi(text.c_str() + 9);
  const size_t end = text.find("\r\n\r\n");
  response.header = text.substr(0, end);
  if (end != text.npos) response.body = text.substr(end + 4);
  return response;
}

RunningServer::Response RunningServer::ask(const std::string& question,
                                           const std::string& body) const {
  return send(request("POST", question, body));
}

int RunningServer::stop(int signal) {
  ::kill(pid_, signal);
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace rnnc::test
