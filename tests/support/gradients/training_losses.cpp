#include "tests/support/gradients/training_losses.h"

#include <nlohmann/json.hpp>
#include <regex>

#include "examples/train_charlm/char_text.h"
#include "examples/training/model.h"
#include "examples/training/trainer.h"
#include "runtime/arrays/random_arrays.h"
#include "tests/runtime/temporary_directory.h"
#include "tests/support/reference/deterministic.h"
#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

/// char_lm.rnn with this cell.
Result<Program> compile_model(const std::string& cell, int64_t vocabulary, CompileOptions options) {
  std::string file = cell;
  for (char& c : file) c = static_cast<char>(std::tolower(c));
  std::string text = read_data("examples/train_charlm/char_lm.rnn");
  text = std::regex_replace(text, std::regex(R"(\.\./cells/lstm)"),
                            (data_root() / "examples/cells" / file).string());
  text = std::regex_replace(text, std::regex("LSTM"), cell);
  const TemporaryDirectory directory;
  directory.write("model.rnn", text);
  return training::compile_loss(
      directory / "model.rnn", "CharLMLoss",
      {.inputs = {{"x", vocabulary, "", true}, {"target", vocabulary, "", true}},
       .in_pieces = true,
       .dims = {{"V", vocabulary}}},
      std::move(options));
}

std::vector<NamedArray> make_params(const Signature& signature) {
  std::vector<NamedArray> params;
  for (const ArrayInfo& info : signature.params) {
    const auto values = deterministic_values("training." + info.name, info.elements(),
                                             weight_bound(info), DType::f32);
    params.push_back({info.name, Array::from_doubles(values, info.shape, info.dtype)});
  }
  return params;
}

}  // namespace

Result<TrainingLosses> train_beside_torch(const std::string& cell, CompileOptions options) {
  const auto golden = nlohmann::json::parse(read_data("tests/goldens/training.json"));
  TrainingLosses losses;
  losses.expected = golden.at("losses").at(cell).get<std::vector<double>>();
  const train_charlm::CharText text(read_data("examples/char_model/excerpt.txt"));
  options.dims["H"] = golden.at("hidden").get<int64_t>();
  Result<Program> program =
      compile_model(cell, static_cast<int64_t>(text.vocabulary().size()), std::move(options));
  if (!program) return tl::unexpected(program.error());
  const training::PieceShape shape{.batch = golden.at("batch").get<int64_t>(),
                                   .steps = golden.at("length").get<int64_t>(),
                                   .go_on = true};
  Result<training::Trainer> trainer =
      training::Trainer::make(*program, shape,
                              {.learning_rate = golden.at("learning_rate").get<double>(),
                               .weight_decay = golden.at("weight_decay").get<double>(),
                               .beta1 = golden.at("beta1").get<double>(),
                               .beta2 = golden.at("beta2").get<double>(),
                               .epsilon = golden.at("epsilon").get<double>(),
                               .clip = golden.at("clip").get<double>()});
  if (!trainer) return tl::unexpected(trainer.error());
  training::Trained first;
  first.params = make_params(program->signature());
  if (Status status = trainer->load(first); !status) return tl::unexpected(status.error());
  for (size_t step = 0; step < losses.expected.size(); ++step) {
    const auto begin = static_cast<int64_t>(step) * shape.steps;
    const Result<double> loss =
        trainer->update(text.piece(text.training(), shape.batch, begin, shape.steps));
    if (!loss) return tl::unexpected(loss.error());
    losses.actual.push_back(*loss);
  }
  return losses;
}

}  // namespace rnnc::test
