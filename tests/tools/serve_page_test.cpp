/// The page of `rnnc serve` in a real browser: typing, and what is there then.
#include <signal.h>

#include <cstdlib>
#include <optional>

#include "tests/tools/browser.h"
#include "tests/tools/serve_support.h"
#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

constexpr const char* kIsExplained = "document.documentElement.dataset.state === 'explained'";
constexpr const char* kIsWrong = "document.documentElement.dataset.state === 'wrong'";
constexpr const char* kPage = "document.getElementById('explanation').srcdoc";

std::string quoted(const std::string& text) {
  return Browser::Json(text).dump();
}

class ServePage : public Tools {
 protected:
  void SetUp() override {
    const std::string name = find_browser();
    if (name.empty()) {
      GTEST_SKIP() << "there is no Chromium here: the page is not looked at in a browser";
    }
    server_.emplace(directory_.path(), std::vector<std::string>{"."});
    browser_.emplace(name, directory_.path());
    browser_->resize(1280, 800);
    browser_->open(server_->address());
    ASSERT_TRUE(browser_->becomes(kIsExplained)) << status();
  }
  void TearDown() override {
    if (!browser_) return;
    EXPECT_EQ(browser_->evaluate("document.documentElement.dataset.error ?? ''"), "");
    // $RNNC_PICTURES is a folder for what the pages looked like in the end.
    if (const char* folder = std::getenv("RNNC_PICTURES")) {
      const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
      browser_->save_picture(std::filesystem::path(folder) / (std::string(test->name()) + ".png"));
    }
  }

  std::string status() { return browser_->evaluate("document.body.innerText").dump(); }
  bool becomes(const std::string& expression) {
    const bool good = browser_->becomes(expression);
    EXPECT_TRUE(good) << expression << "\n" << status();
    return good;
  }
  std::string text_of(const std::string& id) {
    return browser_->evaluate(fmt::format("document.getElementById('{}').textContent", id));
  }
  /// The text from now on, with the cursor at its end.
  void write(const std::string& text) {
    browser_->evaluate(
        fmt::format("editor.load({0}); editor.area.focus(); "
                    "editor.area.setSelectionRange({1}, {1}); 0",
                    quoted(text), text.size()));
  }
  /// What a person would have done with a field of the form.
  void choose(const std::string& id, const std::string& value) {
    browser_->evaluate(
        fmt::format("(() => {{ const field = document.getElementById('{0}') ?? "
                    "document.querySelector('[name={0}]'); "
                    "field.value = {1}; for (const kind of ['input', 'change']) "
                    "field.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()",
                    id, quoted(value)));
  }

  std::optional<RunningServer> server_;
  std::optional<Browser> browser_;
};

TEST_F(ServePage, ShowsHowAShippedCellRuns) {
  EXPECT_EQ(text_of("name"), "cells/lstm.rnn");
  EXPECT_TRUE(becomes(fmt::format("{}.includes('\"name\": \"LSTM\"')", kPage)));
  EXPECT_EQ(text_of("problems"), "none");
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#shown .word').length > 5"), true);
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#shown .function').length"), 5);
  EXPECT_EQ(
      browser_->evaluate("editor.text + '\\n' === document.getElementById('shown').textContent"),
      true);
  // What was changed can be opened again.
  const char* kOpen = "document.getElementById('open').value";
  EXPECT_EQ(browser_->evaluate(kOpen), "cells/lstm.rnn");
  browser_->evaluate("editor.replace(0, 4, '')");
  EXPECT_EQ(browser_->evaluate(kOpen), "");
  choose("open", "cells/lstm.rnn");
  EXPECT_TRUE(becomes("editor.text.startsWith('/// ')"));
  // Networks import cells, and layers are few.
  choose("open", "networks/stacked_lstm.rnn");
  EXPECT_TRUE(becomes(fmt::format("{} && {}.includes('StackedLSTM')", kIsExplained, kPage)));
  EXPECT_EQ(browser_->evaluate("document.querySelector('[name=L]').placeholder"), "2");
}

TEST_F(ServePage, FollowsTheForm) {
  choose("H", "24");
  EXPECT_TRUE(becomes(fmt::format("{} && {}.includes('[24, 24]')", kIsExplained, kPage)));
  choose("device", "cuda");
  choose("dtype", "bf16");
  EXPECT_TRUE(
      becomes(fmt::format("{} && {}.includes('\"dtype\": \"bf16\"')", kIsExplained, kPage)));
  browser_->evaluate("document.getElementById('backward').click()");
  EXPECT_TRUE(becomes(fmt::format("{} && {}.includes('\"residuals\": {{')", kIsExplained, kPage)));
  // What the compiler refuses, it says.
  choose("device", "cpu");
  EXPECT_TRUE(becomes("!document.getElementById('failure').hidden"));
  EXPECT_EQ(text_of("failure"), "the CPU has no code for dtype bf16; it takes f32 and f64");
}

TEST_F(ServePage, SaysWhatIsWrongAsItIsTyped) {
  write("cell A[H](x: [H]) -> y {\n  y = x[t] + ");
  browser_->type("z\n}");
  ASSERT_TRUE(becomes(kIsWrong));
  EXPECT_TRUE(becomes(
      "document.querySelector('#problems button')?.textContent.startsWith('2:14: error: ')"));
  EXPECT_EQ(browser_->evaluate("document.querySelector('#shown .error').textContent"), "z");
  // A click goes there.
  browser_->evaluate("document.querySelector('#problems button').click()");
  EXPECT_EQ(
      browser_->evaluate("editor.text.slice(editor.area.selectionStart, editor.area.selectionEnd)"),
      "z");
  browser_->type("1");
  EXPECT_TRUE(becomes(kIsExplained));
  EXPECT_EQ(text_of("problems"), "none");
  EXPECT_TRUE(becomes(fmt::format("{}.includes('\"name\": \"A\"')", kPage)));
}

TEST_F(ServePage, CompletesWords) {
  write("cell A[H](x: [H]) -> y {\n  y = ");
  browser_->type("sig");
  ASSERT_TRUE(becomes("!document.getElementById('candidates').hidden"));
  EXPECT_EQ(
      browser_->evaluate("document.querySelector('#candidates [aria-selected=true]').dataset.word"),
      "sigmoid");
  EXPECT_EQ(browser_->evaluate("document.getElementById(editor.area.getAttribute("
                               "'aria-activedescendant')).dataset.word"),
            "sigmoid");
  browser_->press("Enter");
  EXPECT_TRUE(becomes("editor.text.endsWith('y = sigmoid')"));
  browser_->type("(");
  browser_->press(" ", /*control=*/true);
  ASSERT_TRUE(becomes("!document.getElementById('candidates').hidden"));
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#candidates li')].some("
                               "(item) => item.dataset.word === 'x')"),
            true);
  browser_->press("Escape");
  EXPECT_TRUE(becomes("document.getElementById('candidates').hidden"));
}

TEST_F(ServePage, TellsWhatANameIs) {
  write("/// Twice as much.\ncell A[H](x: [H]) -> y {\n  double = 2 * x[t]\n  y = double\n}\n");
  // The cursor, then the pointer.
  browser_->evaluate(
      "{ const at = editor.text.indexOf('double'); editor.area.setSelectionRange(at, at); }");
  EXPECT_TRUE(becomes("document.getElementById('cursor').textContent.includes('[H]')"));
  const Browser::Json place = browser_->evaluate(
      "(() => { const { left, bottom } = editor.placeOf(editor.text.indexOf('double')); "
      "const corner = document.getElementById('page').getBoundingClientRect(); "
      "return [corner.left + left + 6, corner.top + bottom - 6]; })()");
  ASSERT_TRUE(place.is_array()) << place;
  browser_->move_mouse(place[0], place[1]);
  EXPECT_TRUE(becomes("document.getElementById('tip').textContent.includes('[H]')"));
}

TEST_F(ServePage, FormatsAndIndents) {
  write("cell A[H](x: [H]) -> y {");
  browser_->press("Enter");
  browser_->type("y=x[t]");
  EXPECT_TRUE(becomes("editor.text.endsWith('{\\n  y=x[t]')"));
  browser_->type("\n}");
  browser_->evaluate("document.getElementById('format').click()");
  EXPECT_TRUE(becomes("editor.text.includes('  y = x[t]\\n')"));
}

TEST_F(ServePage, OpensTheFolderAndKeepsATextThatIsLoadedAgain) {
  choose("open", "two.rnn");
  EXPECT_TRUE(
      becomes(fmt::format("{} && {}.includes('\"name\": \"Scale\"')", kIsExplained, kPage)));
  choose("cell", "Sum");
  EXPECT_TRUE(becomes(fmt::format("{} && {}.includes('\"name\": \"Sum\"')", kIsExplained, kPage)));
  browser_->evaluate("editor.replace(0, 0, '// kept\\n')");
  browser_->evaluate("window.old = true; location.reload()");
  EXPECT_TRUE(becomes("!window.old && editor.text.startsWith('// kept')"));
  EXPECT_EQ(text_of("name"), "two.rnn");
  EXPECT_TRUE(becomes(kIsExplained));
}

TEST_F(ServePage, DrawsTheExplanationApartFromItself) {
  // Its scripts run, and reach nothing of this page.
  browser_->evaluate(
      "window.heard = new Promise((done) => addEventListener('message', (event) => "
      "done(event.origin)));"
      "explanation.show(explanation.frame.srcdoc.replace('</body>', `<script>"
      "let found = 'drawn ' + document.documentElement.dataset.drawn;"
      "try { found += parent.document.title; } catch { found += ' apart'; }"
      "document.title = found; parent.postMessage(found, '*');<\\/script></body>`)); 0");
  EXPECT_EQ(browser_->evaluate("window.heard"), "null");
  browser_->evaluate(
      "window.said = new Promise((done) => addEventListener('message', (event) => "
      "done(event.data)));"
      "explanation.show(explanation.frame.srcdoc); 0");
  EXPECT_EQ(browser_->evaluate("window.said"), "drawn yes apart");
}

TEST_F(ServePage, ShowsTheSamePlaceOfTheNextExplanation) {
  browser_->evaluate(
      "explanation.show(explanation.frame.srcdoc.replace('</body>', "
      "'<script>addEventListener(\"load\", () => scrollTo({ top: 300, behavior: \"instant\" }))"
      "<\\/script></body>'))");
  ASSERT_TRUE(becomes("explanation.top === 300"));
  choose("batch", "8");
  EXPECT_TRUE(becomes(fmt::format("{} && {}.includes('\"batch\": 8')", kIsExplained, kPage)));
  EXPECT_EQ(browser_->evaluate(fmt::format("{}.includes('top: 300')", kPage)), true);
}

TEST_F(ServePage, FitsANarrowScreen) {
  for (const int width : {420, 1280}) {
    browser_->resize(width, 800);
    EXPECT_TRUE(becomes(
        fmt::format("innerWidth === {0} && document.documentElement.scrollWidth <= {0}", width)));
    EXPECT_EQ(browser_->evaluate("document.getElementById('text').clientWidth > 250"), true);
  }
  browser_->resize(420, 800);
}

TEST_F(ServePage, HasANameForEverythingThatIsUsed) {
  const Browser::Json unnamed = browser_->evaluate(
      "[...document.querySelectorAll('input, select, textarea, button, iframe')].filter((element) "
      "=> "
      "!(element.labels?.length || element.ariaLabel || element.title || "
      "element.textContent.trim() && "
      "element.tagName === 'BUTTON' || element.getAttribute('aria-labelledby'))).map((element) => "
      "element.id)");
  EXPECT_EQ(unnamed, Browser::Json::array());
  // Contrast of each colour with what is behind it, as WCAG 2 counts it, by day and by night.
  const char* kContrast = R"((() => {
    const light = (colour) => {
      const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
        const c = part / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const probe = document.body.appendChild(document.createElement('i'));
    const colour = (name) => {
      probe.style.color = `var(--${name})`;
      return light(getComputedStyle(probe).color);
    };
    const inks = ['ink', 'soft', 'accent', 'wrong', 'doubt', 'word', 'function',
                  'number', 'string'];
    const worst = Math.min(...inks.flatMap((name) => ['card', 'page', 'faint'].map((back) => {
      const [one, other] = [colour(name), colour(back)].sort((a, b) => b - a);
      return (one + 0.05) / (other + 0.05);
    })));
    probe.remove();
    return worst;
  })())";
  for (const char* scheme : {"light", "dark"}) {
    browser_->prefer(scheme);
    EXPECT_GE(browser_->evaluate(kContrast).get<double>(), 4.5) << scheme;
  }
}

TEST_F(ServePage, IsAccessibleByDayAndByNight) {
  const std::string axe = find_axe();
  if (axe.empty()) GTEST_SKIP() << "there is no axe-core here: accessibility is not checked";
  for (const char* scheme : {"light", "dark"}) {
    browser_->prefer(scheme);
    write("cell A[H](x: [H]) -> y {\n  // A comment.\n  y = 2 * x[t]\n}");
    ASSERT_TRUE(becomes(kIsExplained));
    EXPECT_EQ(browser_->broken_rules(axe), "") << scheme;
    write("cell A[H](x: [H]) -> y {\n  y = x[t] + z + ");
    browser_->type("sig");
    ASSERT_TRUE(becomes(kIsWrong));
    ASSERT_TRUE(becomes("!document.getElementById('candidates').hidden"));
    EXPECT_EQ(browser_->broken_rules(axe), "") << scheme;
  }
}

TEST_F(ServePage, SaysSoWhenTheServerHasGone) {
  server_->stop(SIGINT);
  browser_->evaluate("editor.load('cell')");
  EXPECT_TRUE(
      becomes("document.getElementById('failure').textContent === "
              "'rnnc serve does not answer: is it still running?'"));
}

}  // namespace
}  // namespace rnnc::test
