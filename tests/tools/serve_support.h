/// A running `rnnc serve`, and bytes to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace rnnc::test {

/// One connection, with bytes as they are.
class Connection {
 public:
  explicit Connection(int port);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// False if the other side has closed.
  bool send(std::string_view bytes) const;
  /// All that comes until the other side closes, or for some time.
  std::string read(std::chrono::milliseconds most = std::chrono::seconds(20)) const;

 private:
  int socket_;
};

class RunningServer {
 public:
  /// In the folder, with more words for the command line. What it says on standard error is in its
  /// file `serve.errors`.
  explicit RunningServer(const std::filesystem::path& directory,
                         std::vector<std::string> words = {});
  ~RunningServer();
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  const std::string& address() const { return address_; }
  int port() const { return port_; }
  std::string token() const;
  int pid() const { return pid_; }
  /// Of processes that it has started and that still run.
  std::vector<int> children() const;

  /// A request with the headers that browsers send, but for those given.
  std::string request(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& headers = "") const;
  struct Response {
    int status = 0;  // 0: none came
    std::string header;
    std::string body;
  };
  Response send(std::string_view bytes) const;
  /// What a page asks.
  Response ask(const std::string& question, const std::string& body) const;
  /// Sends it a signal and gives its exit code, or -1 if it does not exit by itself.
  int stop(int signal);

 private:
  int pid_ = 0;
  int port_ = 0;
  std::string address_;
};

}  // namespace rnnc::test
