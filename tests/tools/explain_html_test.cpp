/// The page of `rnnc explain --html` in a real browser: what its scripts have drawn.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

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

/// Where a node is drawn when turns of loops are one, and the turn that it is of in each repeat.
struct Folded {
  size_t node = 0;
  std::vector<int64_t> turns;
};

Folded fold(const Json& graph, size_t node) {
  Folded folded{.node = node, .turns = {}};
  for (const Json& repeat : graph["repeats"]) {
    const size_t first = repeat["first"], length = repeat["length"];
    const size_t end = first + length * repeat["count"].get<size_t>();
    const bool inside = first <= folded.node && folded.node < end;
    folded.turns.push_back(inside ? static_cast<int64_t>((folded.node - first) / length) : -1);
    if (inside) folded.node = first + (folded.node - first) % length;
  }
  return folded;
}

size_t nodes_drawn(const Json& graph) {
  std::set<size_t> nodes;
  for (size_t node = 0; node < graph["nodes"].size(); ++node) {
    nodes.insert(fold(graph, node).node);
  }
  return nodes.size();
}

size_t edges_drawn(const Json& graph) {
  std::set<std::tuple<size_t, size_t, bool, bool>> edges;
  for (const Json& edge : graph["edges"]) {
    const Folded from = fold(graph, edge["from"]);
    const Folded to = fold(graph, edge["to"]);
    bool across = false;
    for (size_t i = 0; i < from.turns.size(); ++i) {
      across |= from.turns[i] >= 0 && to.turns[i] >= 0 && from.turns[i] != to.turns[i];
    }
    edges.insert({from.node, to.node, edge["through_time"], across});
  }
  return edges.size();
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
      EXPECT_EQ(count(graph, "class=\"node "), shown ? nodes_drawn(expected) : 0) << name;
      EXPECT_EQ(count(graph, "class=\"edge"), shown ? edges_drawn(expected) : 0) << name;
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

/// What people do on the page: scripts that run once it is drawn.
class ExplainPageInUse : public ExplainPage {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) {
      GTEST_SKIP() << "there is no Chromium here: the page is not looked at in a browser";
    }
  }

  std::string after(const std::string& script, const std::vector<std::string>& arguments) const {
    std::string markup = page(arguments);
    markup.insert(markup.rfind("</body>"), "<script>" + script + "</script>");
    const std::string drawn = draw(browser_, markup);
    EXPECT_EQ(drawn.substr(0, drawn.find("<body")).find("data-error"), drawn.npos) << script;
    return drawn;
  }
  std::string after_click(const std::string& element) const {
    return after(fmt::format("document.querySelector('{}').dispatchEvent(new MouseEvent('click', "
                             "{{ bubbles: true }}));",
                             element),
                 kNet);
  }
  /// What a script wrote to the root's `data-found`.
  static std::string found(const std::string& drawn) {
    const size_t begin = drawn.find("data-found=\"") + 12;
    return drawn.substr(begin, drawn.find('"', begin) - begin);
  }

  std::string browser_;
  const std::vector<std::string> kNet = {"explain", "net.rnn", "--cell", "Net", "--dim", "H=8"};
};

// As z = ... stands in line 6; both layers have its nodes, which are drawn once.
TEST_F(ExplainPageInUse, ALineLightsItsNodesAndLaunches) {
  const Json data = json(kNet);
  const Json& graph = data["graphs"]["before"];
  std::set<size_t> nodes;
  size_t twice = 0;
  for (size_t i = 0; i < graph["nodes"].size(); ++i) {
    if (!graph["nodes"][i]["place"].get<std::string>().starts_with("net.rnn:6:")) continue;
    twice += nodes.insert(fold(graph, i).node).second ? 0 : 1;
  }
  EXPECT_GT(twice, 0U);
  size_t launches = 0;
  for (const Json& stage : data["stages"]) {
    for (const Json& launch : stage["launches"]) {
      launches += std::ranges::count(launch["lines"], Json("net.rnn:6")) > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(launches, 0U);
  for (const char* element :
       {"button.line[data-line=\"net.rnn:6\"]", ".node[data-line=\"net.rnn:6\"]",
        "button.launch-line[data-line=\"net.rnn:6\"]"}) {
    const std::string drawn = after_click(element);
    EXPECT_EQ(count(part(drawn, "graph-before", "svg"), "chosen\""), nodes.size()) << element;
    EXPECT_EQ(count(drawn, "data-line=\"net.rnn:6\" aria-pressed=\"true\""), 1U);
    EXPECT_EQ(count(part(drawn, "source-files", "p"), "aria-pressed=\"true\""), 1U);
    EXPECT_EQ(count(part(drawn, "stages", "section"), "class=\"launch chosen\""), launches);
    EXPECT_NE(drawn.find("net.rnn:6 is "), drawn.npos);
    EXPECT_NE(drawn.find("; in launch "), drawn.npos);
  }
}

TEST_F(ExplainPageInUse, ALaunchLightsItsLines) {
  const Json data = json(kNet);
  const auto& launches = data["stages"].back()["launches"];
  const Json& launch = launches[0];
  ASSERT_GT(launch["lines"].size(), 0U);
  const std::string id = launch["id"];
  // Its node in the picture stands for that of the other layer, too.
  const std::pair<std::string, size_t> elements[] = {
      {fmt::format("button.launch-id[data-id=\"{}\"]", id), 1},
      {fmt::format("#graph-after .node[data-launch~=\"{}\"]", id), 2}};
  for (const auto& [element, chosen] : elements) {
    const std::string drawn = after_click(element);
    EXPECT_EQ(count(part(drawn, "source-files", "p"), "aria-pressed=\"true\""),
              launch["lines"].size());
    EXPECT_EQ(count(part(drawn, "stages", "section"), "class=\"launch chosen\""), chosen);
    EXPECT_EQ(count(part(drawn, "graph-after", "svg"), "chosen\""), 1U);
    EXPECT_NE(drawn.find(chosen > 1 ? fmt::format(", {} compute net.rnn:", id)
                                    : fmt::format("launch {} computes net.rnn:", id)),
              drawn.npos);
  }
  const std::string again = after(fmt::format("for (let i = 0; i < 2; ++i) document.querySelector("
                                              "'button.launch-id[data-id=\"{}\"]').click();",
                                              id),
                                  kNet);
  EXPECT_EQ(count(part(again, "stages", "section"), "class=\"launch chosen\""), 0U);
}

TEST_F(ExplainPageInUse, TurnsOfALoopAreDrawnOnceOrEach) {
  const Json graph = json(kNet)["graphs"]["before"];
  ASSERT_EQ(graph["repeats"].size(), 1U);
  EXPECT_EQ(graph["repeats"][0]["count"], 2);
  EXPECT_NE(after("", kNet).find("Cell.0.z = sigmoid ×2"), std::string::npos);
  const std::string each = after(
      "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Each turn of "
      "loops').click();",
      kNet);
  EXPECT_EQ(count(part(each, "graph-before", "svg"), "class=\"node "), graph["nodes"].size());
  EXPECT_EQ(count(part(each, "graph-before", "svg"), "×"), 0U);
}

/// From the input, where the keyboard comes in, down to what reads it, and Enter.
TEST_F(ExplainPageInUse, KeysGoFromNodeToNode) {
  const std::string drawn = after(
      "const first = document.querySelector('#graph-before .node[tabindex=\"0\"]');"
      "first.focus();"
      "const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', "
      "{ key, bubbles: true, cancelable: true }));"
      "const at = () => document.activeElement.dataset.name;"
      "const way = [at()];"
      "for (const key of ['ArrowDown', 'ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowDown']) {"
      "  press(key); way.push(at()); }"
      "press('Enter');"
      "document.documentElement.dataset.found = [way[0], way[1] === way[3], way[1] !== way[2], "
      "document.activeElement.classList.contains('chosen'), "
      "document.querySelectorAll('#graph-before .node[tabindex=\"0\"]').length].join();",
      kNet);
  EXPECT_EQ(found(drawn), "x[t],true,true,true,1");
}

TEST_F(ExplainPageInUse, LargeGraphsOpenWhereOneCanRead) {
  directory_.write("wide.rnn", R"(
cell Wide[H](x: [H]) -> y {
  param W[40]: [H, H]
  y = 0
  for l in 0..40 { y = y + tanh(W[l] @ x[t]) }
}
)");
  const std::string drawn = after(
      "setTimeout(() => {"
      "  const box = document.querySelector('#pictures .canvas').getBoundingClientRect();"
      "  const node = document.querySelector('#graph-simplified .node.input, #graph-before "
      ".node.input').getBoundingClientRect();"
      "  const inside = box.left <= node.left && node.right <= box.right && box.top <= node.top && "
      "node.bottom <= box.bottom;"
      "  document.documentElement.dataset.found = `${inside} ${node.height >= 0.7 * NODE_HEIGHT}`;"
      "}, 500);",
      {"explain", "wide.rnn", "--dim", "H=8"});
  EXPECT_EQ(found(drawn), "true true");
}

/// In a frame, as Chromium's own window is never so narrow.
TEST_F(ExplainPageInUse, FitsASmallScreen) {
  std::string markup = page(kNet);
  markup.insert(markup.rfind("</body>"),
                "<script>addEventListener('load', () => parent.postMessage(`${innerWidth} "
                "${document.documentElement.scrollWidth <= innerWidth}`, '*'));</script>");
  directory_.write("inner.html", markup);
  const std::string drawn = draw(
      browser_,
      "<!doctype html><html><body><iframe src=\"inner.html\" width=\"420\" height=\"900\"></iframe>"
      "<script>addEventListener('message', (event) => { document.documentElement.dataset.found = "
      "event.data; });</script></body></html>");
  EXPECT_EQ(found(drawn), "420 true");
}

TEST_F(ExplainPageInUse, IsAccessibleByDayAndByNight) {
  const std::string axe = find_axe();
  if (axe.empty()) GTEST_SKIP() << "there is no axe-core here: accessibility is not checked";
  good({"explain", "net.rnn", "--cell", "Net", "--dim", "H=8", "--batch", "2", "--json", "-o",
        "other.json"});
  std::vector<std::string> against = kNet;
  against.insert(against.end(), {"--against", "other.json"});
  std::vector<std::string> training = kNet;
  training.emplace_back("--backward");
  Browser browser(browser_, directory_.path());
  for (const std::vector<std::string>& arguments : {against, training}) {
    directory_.write("page.html", page(arguments));
    for (const char* scheme : {"light", "dark"}) {
      browser.prefer(scheme);
      browser.open("file://" + (directory_ / "page.html").string());
      ASSERT_TRUE(browser.becomes("document.documentElement.dataset.drawn === 'yes'"));
      EXPECT_EQ(
          browser.evaluate(fmt::format("matchMedia('(prefers-color-scheme: {})').matches", scheme)),
          true);
      browser.evaluate("document.querySelector('.launch-id').click()");
      EXPECT_EQ(browser.broken_rules(axe), "") << scheme;
    }
  }
}

TEST_F(ExplainPageInUse, ShowsThenAndNow) {
  good({"explain", "net.rnn", "--cell", "Net", "--dim", "H=8", "--passes", "none", "--json", "-o",
        "other.json"});
  std::vector<std::string> arguments = kNet;
  arguments.insert(arguments.end(), {"--against", "other.json"});
  const Json against = json(arguments)["against"];
  const std::string drawn = after("", arguments);
  const std::string_view shown = part(drawn, "against", "section");
  EXPECT_EQ(shown.find(" hidden"), shown.npos);
  EXPECT_EQ(count(shown, "class=\"setting\""), against["settings"].size());
  EXPECT_EQ(count(shown, "class=\"figure\""), against["figures"].size());
  EXPECT_EQ(count(shown, "class=\"other-launch\""), against["launches"].size());
  const std::string alone = after("", kNet);
  EXPECT_NE(alone.find("id=\"against\" aria-labelledby=\"against-title\" hidden"), alone.npos);
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
  directory_.write("linear.rnn",
                   "cell Linear[H](x: [H]) -> h {\n  state h: [H]\n  param a: [H]\n"
                   "  h[t] = sigmoid(a) * h[t-1] + x[t]\n}\n");
  expect_drawn(browser, {"explain", "linear.rnn", "--dim", "H=4", "--strategy", "scan", "--steps",
                         "4096", "--device", "cuda"});
}

}  // namespace
}  // namespace rnnc::test
