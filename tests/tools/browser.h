/// A real browser, as a person uses it: a page is opened, keys are pressed, what is there is seen.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace rnnc::test {

/// The name of an installed Chromium, or "".
std::string find_browser();

/// The text of axe-core, where ./dev has fetched it (`want_axe`), or "".
std::string find_axe();

/// One page of a headless Chromium, which is driven by the DevTools protocol over two pipes.
class Browser {
 public:
  using Json = nlohmann::json;

  /// `folder` is for what the browser writes.
  Browser(const std::string& name, const std::filesystem::path& folder);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& address);
  /// The value of a JavaScript expression in the page, once it is there if it is a promise; or the
  /// text of what it throws.
  Json evaluate(const std::string& expression);
  /// Whether it becomes true within 20 s.
  bool becomes(const std::string& expression);
  /// As typed at the focus; `press` takes names such as "Enter".
  void type(const std::string& text);
  void press(const std::string& key, bool control = false);
  void move_mouse(double x, double y);
  void resize(int width, int height);
  /// "light" or "dark".
  void prefer(const std::string& scheme);
  /// The rules of axe-core, whose text is `axe`, that the page breaks: with how many elements and
  /// the first of them, a line each.
  std::string broken_rules(const std::string& axe);
  /// As PNG.
  void save_picture(const std::filesystem::path& file);

 private:
  Json call(const std::string& method, Json parameters);
  Json read();

  pid_t pid_ = 0;
  int to_browser_ = -1, from_browser_ = -1;
  std::string read_;
  std::string session_;
  int calls_ = 0;
};

}  // namespace rnnc::test
