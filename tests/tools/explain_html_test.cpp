/// The page of `rnnc explain --html` in a real browser: what its scripts have drawn.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/tools/browser.h"
#include "tests/tools/explain_support.h"

namespace rnnc::test {
namespace {

using Json = nlohmann::json;

size_t count(std::string_view text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

/// The part of a page from an element with this id to the end of its `element`.
std::string_view part(std::string_view page, std::string_view id, std::string_view element) {
  const size_t begin = page.find(fmt::format("id=\"{}\"", id));
  if (begin == page.npos) return "";
  return page.substr(begin, page.find(fmt::format("</{}>", element), begin) - begin);
}

class ExplainPage : public Tools {
 protected:
  ExplainPage() { directory_.write("net.rnn", kNetwork); }

  std::string page(std::vector<std::string> arguments) const {
    arguments.emplace_back("--html");
    return good(arguments);
  }
  Json json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    return Json::parse(good(arguments));
  }

  /// The page after its scripts have run, as markup; "" if the browser fails.
  std::string draw(const std::string& browser, const std::string& markup) const {
    directory_.write("page.html", markup);
    const std::string profile = (directory_ / "profile").string();
    const std::string command = fmt::format(
        "timeout 120 {} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
        "--user-data-dir={} --virtual-time-budget=10000 --dump-dom file://{} >{} 2>{}",
        browser, profile, (directory_ / "page.html").string(), (directory_ / "drawn").string(),
        (directory_ / "log").string());
    if (std::system(command.c_str()) != 0) {
      ADD_FAILURE() << TemporaryDirectory::read(directory_ / "log");
      return "";
    }
    return TemporaryDirectory::read(directory_ / "drawn");
  }

  /// Draws the page and looks for everything that the data tell it to draw.
  void expect_drawn(const std::string& browser, const std::vector<std::string>& arguments) const {
    const Json data = json(arguments);
    const std::string drawn = draw(browser, page(arguments));
    const std::string_view root = std::string_view(drawn).substr(0, drawn.find("<body"));
    EXPECT_NE(root.find("data-drawn=\"yes\""), root.npos) << root;
    EXPECT_EQ(root.find("data-error"), root.npos) << root;
    EXPECT_NE(root.find(fmt::format("<title>{} ", data["name"].get<std::string>())), root.npos);

    const bool simplifies = data["graphs"]["before"] != data["graphs"]["simplified"];
    for (const char* name : {"before", "simplified", "after"}) {
      const std::string_view graph = part(drawn, std::string("graph-") + name, "svg");
      const bool shown = std::string_view(name) != "simplified" || simplifies;
      const Json& expected = data["graphs"][name];
      EXPECT_EQ(count(graph, "class=\"node "), shown ? expected["nodes"].size() : 0) << name;
      EXPECT_EQ(count(graph, "class=\"edge"), shown ? expected["edges"].size() : 0) << name;
      EXPECT_EQ(count(graph, "NaN"), 0U) << name;
    }
    size_t launches = 0;
    size_t points = 0;
    for (const Json& stage : data["stages"]) {
      launches += stage["launches"].size();
      for (const Json& launch : stage["launches"]) points += launch["cost"]["flops"] > 0 ? 1 : 0;
    }
    EXPECT_EQ(count(part(drawn, "stages", "section"), "class=\"launch\""), launches);
    EXPECT_EQ(count(part(drawn, "timeline-plot", "section"), "class=\"bar\""),
              data["waves"]["bars"].size());
    const std::string_view roofline = part(drawn, "roofline-plot", "section");
    EXPECT_EQ(count(roofline, "class=\"point\""), points);
    EXPECT_GE(count(roofline, "class=\"roof "), 2U);
    size_t blocks = 0;
    for (const Json& block : data["memory"]["blocks"]) blocks += block["place"] == "workspace";
    EXPECT_EQ(count(part(drawn, "memory-plot", "svg"), "class=\"block\""), blocks);
    for (const char* plot : {"timeline-plot", "roofline-plot", "memory-plot"}) {
      const bool empty = std::string_view(plot) == "memory-plot" && blocks == 0;
      const std::string_view drawing = part(drawn, plot, "section");
      EXPECT_EQ(count(drawing, "NaN"), 0U) << plot;
      EXPECT_EQ(count(drawing, "role=\"img\""), empty ? 0U : 1U) << plot;
    }
  }
};

TEST_F(ExplainPage, IsOneFileWithItsData) {
  const std::vector<std::string> arguments = {"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4"};
  const std::string text = page(arguments);
  EXPECT_TRUE(text.starts_with("<!doctype html>"));
  EXPECT_TRUE(text.ends_with("</html>\n"));
  // The one address is the name of SVG's namespace; nothing is fetched.
  EXPECT_EQ(count(text, "://"), 1U);
  EXPECT_EQ(count(text, "src="), 0U);
  const size_t begin = text.find("id=\"data\">") + 10;
  const std::string data = text.substr(begin, text.find("</script>", begin) - begin);
  EXPECT_EQ(Json::parse(data), json(arguments));
}

TEST_F(ExplainPage, NamesCannotBreakIt) {
  directory_.write("odd.rnn", "cell Odd[H](x: [H]) -> y {\n  y = where(x[t] < 0, 1, x[t])\n}\n");
  const std::string text = page({"explain", "odd.rnn", "--dim", "H=4"});
  const size_t begin = text.find("id=\"data\">") + 10;
  EXPECT_EQ(text.substr(begin, text.find("</script>", begin) - begin).find('<'), text.npos);
}

TEST_F(ExplainPage, OfAProfileShowsWhatWasMeasured) {
  const std::string browser = find_browser();
  if (browser.empty()) {
    GTEST_SKIP() << "there is no Chromium here: the page is not looked at in a browser";
  }
  good({"profile", "net.rnn", "--cell", "Net", "--dim", "H=8", "--runs", "2", "--html", "p.html",
        "--json", "p.json"});
  const Json data = Json::parse(TemporaryDirectory::read(directory_ / "p.json"));
  const std::string drawn = draw(browser, TemporaryDirectory::read(directory_ / "p.html"));
  EXPECT_EQ(drawn.substr(0, drawn.find("<body")).find("data-error"), drawn.npos);
  size_t measured = 0;
  for (const Json& stage : data["stages"]) {
    for (const Json& launch : stage["launches"]) measured += !launch["measured_seconds"].is_null();
  }
  EXPECT_GT(measured, 0U);
  EXPECT_EQ(count(part(drawn, "stages", "section"), "class=\"number measured\""), measured);
  EXPECT_EQ(count(part(drawn, "tiles", "section"), "measured time a step"), 1U);
  EXPECT_EQ(count(part(drawn, "origin", "footer"), "Nothing was run"), 0U);
}

/// Clicks in the browser: on a line of the text, then on a node of another line.
TEST_F(ExplainPage, LinksTheTextAndItsNodes) {
  const std::string browser = find_browser();
  if (browser.empty()) {
    GTEST_SKIP() << "there is no Chromium here: the page is not looked at in a browser";
  }
  const std::vector<std::string> arguments = {"explain", "net.rnn", "--cell",
                                              "Net",     "--dim",   "H=8"};
  const Json nodes = json(arguments)["graphs"]["before"]["nodes"];
  const auto expected = [&](std::string_view line) {
    return std::ranges::count_if(nodes, [&](const Json& node) {
      return node["place"].get<std::string>().starts_with(line);
    });
  };
  EXPECT_EQ(
      std::ranges::count_if(nodes, [](const Json& node) { return node["name"] == "Cell.0.z"; }), 1);
  const auto after_click = [&](const std::string& element) {
    std::string markup = page(arguments);
    markup.insert(markup.rfind("</body>"),
                  fmt::format("<script>document.querySelector('{}').dispatchEvent("
                              "new MouseEvent('click'));</script>",
                              element));
    return draw(browser, markup);
  };
  // As z = ... stands in line 6; both layers have its nodes.
  for (const char* element :
       {"button[data-line=\"net.rnn:6\"]", ".node[data-line=\"net.rnn:6\"]"}) {
    const std::string drawn = after_click(element);
    EXPECT_EQ(drawn.substr(0, drawn.find("<body")).find("data-error"), drawn.npos);
    EXPECT_EQ(count(part(drawn, "graph-before", "svg"), "chosen\""), expected("net.rnn:6:"));
    EXPECT_EQ(count(drawn, "data-line=\"net.rnn:6\" aria-pressed=\"true\""), 1U);
    EXPECT_EQ(count(part(drawn, "source-files", "section"), "aria-pressed=\"true\""), 1U);
    EXPECT_NE(drawn.find("net.rnn:6 is "), drawn.npos);
  }
}

TEST_F(ExplainPage, DrawsInABrowser) {
  const std::string browser = find_browser();
  if (browser.empty()) {
    GTEST_SKIP() << "there is no Chromium here: the page is not looked at in a browser";
  }
  expect_drawn(browser, {"explain", "net.rnn", "--cell", "Net", "--dim", "H=8", "--steps", "64",
                         "--chunk", "16", "--lengths", "--device", "cuda"});
  expect_drawn(browser, {"explain", "toy.rnn", "--dim", "I=3", "--dim", "H=4", "--passes", "none"});
  expect_drawn(browser, {"explain", "two.rnn", "--cell", "Scale", "--dim", "H=4"});
}

}  // namespace
}  // namespace rnnc::test
