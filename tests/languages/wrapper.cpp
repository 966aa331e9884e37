/*
 * wrapper.cpp: tests the C++ wrapper: objects free what they own, failures are exceptions with status and message, and
 * exceptions of the program's own functions pass through the library to its caller. Prints a line for each check that
 * fails, then a count.
 */
#include <brigade/brigade.hpp>

#include <cstdio>
#include <cstring>
#include <thread>

namespace
{

int passed, failed;

void expect(bool holds, const char *what)
{
    if (holds) {
        passed++;
    } else {
        failed++;
        std::printf("FAILED: %s\n", what);
    }
}

/* Checks that `function` throws a brigade::error of this status whose message has `words`. */
template <class Function> void expect_error(Function function, bg_status status, const char *words, const char *what)
{
    try {
        function();
        expect(false, what);
    } catch (const brigade::error &failure) {
        const bool is_right = failure.status() == status && std::strstr(failure.what(), words) != nullptr &&
                              std::strcmp(failure.what(), failure.cause().message) == 0;

        expect(is_right, what);
        if (!is_right)
            std::printf("  %s: %s\n", bg_status_name(failure.status()), failure.what());
    }
}

/* ---- an op of the program's own ---- */

bg_status infer_twice(const bg_op_signature *op, bg_type *outputs, bg_error *)
{
    outputs[0] = op->types[0];
    return BG_OK;
}

void run_twice(const bg_kernel_call *call, uint32_t)
{
    const float *const x = static_cast<const float *>(call->operands[0]);
    float *const y = static_cast<float *>(call->operands[1]);

    for (int64_t i = 0; i < bg_type_element_count(&call->types[0]); i++)
        y[i] = 2 * x[i];
}

bg_status choose_twice(const bg_op_signature *, bg_kernel_policy, bg_kernel *out, bg_error *)
{
    *out = bg_kernel();
    out->name = "twice";
    out->run = run_twice;
    out->part_count = 1;
    return BG_OK;
}

#if __cplusplus >= 202002L
const bg_op_type twice = {.name = "twice",
                          .minimum_inputs = 1,
                          .maximum_inputs = 1,
                          .output_count = 1,
                          BG_OP_TYPE_DEFAULTS,
                          .infer = infer_twice,
                          .kernel = choose_twice};
#else
bg_op_type make_twice()
{
    bg_op_type made = {BG_OP_TYPE_DEFAULTS};

    made.name = "twice";
    made.minimum_inputs = made.maximum_inputs = made.output_count = 1;
    made.infer = infer_twice;
    made.kernel = choose_twice;
    return made;
}
const bg_op_type twice = make_twice();
#endif

void try_own_op()
{
    brigade::graph graph;
    std::vector<float> y;
    const bg_value x = graph.input("x", BG_FLOAT32, {2, 2});

    expect(twice.alias_input == BG_NO_OPERAND && twice.reuse_input == BG_NO_OPERAND &&
               twice.weight_output == BG_NO_OPERAND && twice.written_inputs == 0 && !twice.is_elementwise_update &&
               twice.training_writes == 0 && twice.accumulating == nullptr && twice.gradient == nullptr,
           "BG_OP_TYPE_DEFAULTS sets the operands and nothing else");
    graph.block("only");
    graph.output("y", bg_graph_add(graph, &twice, nullptr, &x, 1, nullptr, nullptr));
    graph.check();
    brigade::session session = brigade::session::inference(graph, nullptr);
    session.run({{"x", std::vector<float>{1, 2, 3, 4}}}, {{"y", y}});
    expect(y == std::vector<float>({2, 4, 6, 8}), "an op of the program's own runs");
}

/* ---- sessions ---- */

bg_value build(brigade::graph &graph)
{
    const bg_value x = graph.input("x", BG_FLOAT32, {4, 2}), y = graph.input("y", BG_FLOAT32, {4, 2});

    graph.block("first");
    const bg_value hidden = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 8, true));
    graph.block("second");
    const bg_value guess = bg_linear_layer(graph, "fc2", hidden, 2, true);
    const bg_value loss = bg_mse_loss(graph, "mse", guess, y, BG_LOSS_MEAN);
    graph.output("loss", loss);
    graph.output("guess", guess);
    return loss;
}

const std::vector<float> X = {0, 0, 0, 1, 1, 0, 1, 1}, Y = {0, 0, 1, 0, 1, 0, 0, 1};

void try_session(const std::string &folder)
{
    brigade::graph graph;
    const bg_value loss = build(graph);
    brigade::session session = brigade::session::training(graph, loss, bg_adam(0.05));
    std::vector<float> first, last, guess;

    expect(graph.print().find("fc1") != std::string::npos, "a graph prints");
    session.run({{"x", X}, {"y", Y}}, {{"loss", first}});
    for (int i = 0; i < 60; i++)
        session.run({{"y", Y}, {"x", X.data(), X.size()}}, {{"loss", last}, {"guess", guess}});
    expect(first.size() == 1 && guess.size() == 8 && last[0] < first[0] / 4, "it learns");

    expect_error([&] { session.run({{"x", X}}, {}); }, BG_ERROR_INVALID, "lacks input `y`", "a missing input");
    expect_error(
        [&] {
            session.run({{"x", X}, {"x", X}}, {});
        },
        BG_ERROR_INVALID, "twice", "an input that is given twice");
    expect_error(
        [&] {
            session.run({{"z", X}, {"y", Y}}, {});
        },
        BG_ERROR_NOT_FOUND, "no input `z`", "an unknown input");
    expect_error(
        [&] {
            session.run({{"x", std::vector<float>(7)}, {"y", Y}}, {});
        },
        BG_ERROR_SHAPE, "has 28 bytes but a run needs 32", "a size that does not fit");
    expect_error(
        [&] {
            session.run({{"x", std::vector<int32_t>(8)}, {"y", Y}}, {});
        },
        BG_ERROR_SHAPE, "elements of float32 but is given as int32", "another element type");
    expect_error(
        [&] {
            session.run({{"x", X}, {"y", Y}}, {{"none", last}});
        },
        BG_ERROR_NOT_FOUND, "no output `none`", "an unknown output");
    float small[3];
    expect_error(
        [&] {
            session.run({{"x", X}, {"y", Y}}, {{"guess", small, 3}});
        },
        BG_ERROR_SHAPE, "output `guess` has 32 bytes but its memory has 12", "an output that does not fit");

    /* Weights are saved and loaded again. */
    const std::string path = folder + "/w.safetensors";
    brigade::weights::save(session.weights(), path);
    brigade::weights loaded;
    const brigade::weights_report report = loaded.load(path);
    expect(report.count(BG_WEIGHTS_LOADED) == 4 && report.print().empty() && report.end() - report.begin() == 4,
           "four weights are loaded");
    expect(loaded.values<float>("fc1.weight") == brigade::weights::values<float>(session.weights(), "fc1.weight"),
           "with the same values");
    expect_error([&] { loaded.find("fc3.weight"); }, BG_ERROR_NOT_FOUND, "fc3.weight", "a weight that is not there");
    expect_error([&] { loaded.values<double>("fc1.weight"); }, BG_ERROR_SHAPE, "read as float64",
                 "a weight of another type");
    expect_error([&] { loaded.load(folder + "/none"); }, BG_ERROR_NOT_FOUND, "none", "a file that is not there");
    loaded.set("fc2.bias", {2}, std::vector<float>{1, 2});
    expect_error(
        [&] {
            loaded.set("fc2.bias", {3}, std::vector<float>{1, 2});
        },
        BG_ERROR_SHAPE, "gets 2 elements", "a weight of another size");

    /* A session can be moved, and runs after it was moved back. */
    brigade::session moved = std::move(session);
    expect(session.get() == nullptr && moved.get() != nullptr, "a session moves");
    session = std::move(moved);
    expect(moved.get() == nullptr && session.get() != nullptr, "and back");
    session.run({{"x", X}, {"y", Y}}, {{"loss", last}});
}

void try_readers()
{
    brigade::graph graph;
    const bg_value loss = build(graph);
    brigade::options options;
    options.set("strategy", "single").set("initialize_missing", true);
    const brigade::plan training = brigade::plan::training(graph, loss, bg_sgd(0.1), options);
    const brigade::plan inference = brigade::plan::inference(graph, options);
    brigade::session session(training);
    brigade::session reader = brigade::session::reader(inference, session.weights());
    std::vector<float> guess, other;

    expect(training.summary().stage_count == 1 && training.print_memory().find("transient") != std::string::npos,
           "a plan says what it is");
    reader.run({{"x", X}, {"y", Y}}, {{"guess", guess}});
    session.run({{"x", X}, {"y", Y}}, {});
    reader.run({{"x", X}, {"y", Y}}, {{"guess", other}});
    expect(guess == other, "a reader keeps to what was published");
    expect(brigade::weights::publish(session.weights()) == 2, "the second version");
    std::thread thread([&] { reader.run({{"x", X}, {"y", Y}}, {{"guess", other}}); });
    thread.join();
    expect(guess != other, "and sees the next version");
}

void try_failures()
{
    brigade::graph graph;
    const bg_value x = graph.input("x", BG_FLOAT32, {4, 2}), y = graph.input("y", BG_FLOAT32, {4, 3});

    expect_error([&] { graph.input("z", BG_FLOAT32, {0}); }, BG_ERROR_SHAPE, "", "a dimension of zero");
    expect_error(
        [&] {
            graph.input("z", BG_FLOAT32, {1, 1, 1, 1, 1, 1, 1});
        },
        BG_ERROR_SHAPE, "7 dimensions", "too many dimensions");
    expect_error(
        [&] {
            graph.constant("c", {3}, std::vector<float>{1, 2});
        },
        BG_ERROR_SHAPE, "has 2 elements", "a constant of another size");
    {
        const brigade::scope outer(graph, "outer"), inner(graph, "inner");
        bg_linear_layer(graph, "fc", x, 2, false);
    }
    expect(!bg_value_is_null(bg_graph_find_variable(graph, "outer.inner.fc.weight")), "scopes begin and end");
    bg_add(graph, x, y);
    expect_error([&] { graph.check(); }, BG_ERROR_SHAPE, "do not broadcast", "shapes that do not fit");
    expect_error([] { brigade::options().set("stratgy", "single"); }, BG_ERROR_NOT_FOUND, "strategy",
                 "an option that is misspelled");
    expect_error([] { brigade::options().set("strategy", "fast"); }, BG_ERROR_INVALID, "fast", "a value that is none");
}

/* ---- progress ---- */

void try_progress()
{
    brigade::graph graph;
    const bg_value loss = build(graph);
    brigade::options options;
    int parts = 0;

    options.progress([&](const char *what, uint64_t done, uint64_t total) {
        parts++;
        return what[0] == '\0' || done >= total;
    });
    brigade::session::training(graph, loss, bg_sgd(0.1), options);
    expect(parts > 10, "planning and the creation of a session say how far they are");
    options.progress([](const char *, uint64_t, uint64_t) -> bool { throw 1; });
    expect_error([&] { brigade::session::training(graph, loss, bg_sgd(0.1), options); }, BG_ERROR_CANCELED,
                 "progress canceled the plan before `", "an exception cancels");
    options.progress(nullptr);
    expect(brigade::session::training(graph, loss, bg_sgd(0.1), options).get() != nullptr, "progress that was removed");
}

/* ---- the trainer ---- */

struct own_exception {
    int number;
};

void try_trainer()
{
    bg_digits_options digits = bg_digits_options();
    bg_image_set images;
    brigade::dataset data;
    std::vector<double> losses;
    bg_trainer_options options = bg_trainer_options_defaults();
    int throws = 0;

    digits.seed = 1, digits.count = 400;
    brigade::call(bg_digits_create, &digits, &images);
    const bg_array arrays[] = {images.images, images.labels};
    brigade::call(bg_dataset_create_arrays, arrays, 2u, data.out());
    options.micro_batch[BG_TRAINER_FIT] = 20;
    options.optimizer = bg_adam(0.002);
    options.max_epochs = 3;
    brigade::trainer trainer(
        options,
        [&](bg_graph *graph, bg_trainer_task, int64_t micro_batch) {
            const bg_type image = brigade::make_type(BG_UINT8, {micro_batch, 28, 28}),
                          label = brigade::make_type(BG_UINT8, {micro_batch});
            bg_value x = bg_graph_input(graph, "images", &image);
            const bg_value labels = bg_graph_input(graph, "labels", &label);

            if (throws == 1)
                throw own_exception{1};
            bg_block_start(graph, "B", 0);
            x = bg_standardize(graph, nullptr, bg_flatten(graph, nullptr, x), BG_FLOAT32, 255, 0.1307, 0.3081);
            x = bg_linear_layer(graph, "out", x, 10, true);
            const bg_value loss = bg_cross_entropy(graph, "loss", x, labels, BG_LOSS_MEAN, -100);
            bg_graph_output(graph, "loss", loss);
            return loss;
        },
        [&](bg_trainer_event &event) {
            if (throws == 2 && event.kind == BG_ON_BATCH_END)
                throw own_exception{2};
            if (event.kind == BG_ON_VALIDATION_END)
                losses.push_back(trainer.metric(event.task, "loss").mean);
        });

    throws = 1;
    try {
        trainer.fit(data, data);
        expect(false, "a model that throws");
    } catch (const own_exception &thrown) {
        expect(thrown.number == 1, "a model that throws");
    }
    throws = 0;
    trainer.fit(data, data);
    expect(losses.size() == 3 && losses[2] < losses[0] && trainer.step() == 60, "a trainer trains and validates");
    trainer.test(data);
    expect(trainer.metric(BG_TRAINER_TEST, "loss").mean == losses[2], "and tests with the same weights");
    expect_error([&] { trainer.metric(BG_TRAINER_TEST, "none"); }, BG_ERROR_NOT_FOUND, "none", "an unknown metric");
    throws = 2;
    try {
        trainer.fit(data);
        expect(false, "a callback that throws");
    } catch (const own_exception &thrown) {
        expect(thrown.number == 2, "a callback that throws");
    }
    bg_image_set_clear(&images);
}

} // namespace

void try_generator()
{
    bg_gpt_options model = bg_gpt_defaults();
    bg_generation_options options = bg_generation_defaults();
    brigade::weights weights;
    brigade::tokenizer bytes;

    model.layers = 1, model.hidden = 16, model.heads = 2, model.vocabulary = 257;
    model.sequence_length = 4, model.positions = 16;
    brigade::call(bg_tokenizer_create_bytes, bytes.out());
    options.tokenizer = bytes;
    options.max_tokens = 5;
    const brigade::generator generator(model, weights, 2, brigade::options().set("initialize_missing", true));
    const std::vector<brigade::generation> found = generator.run({{1, 2, 3}, {4}}, options);
    expect(found.size() == 2 && found[0].tokens.size() == 5 && found[1].end == BG_GENERATION_LENGTH &&
               found[0].log_share < 0,
           "a generator continues prompts");
    options.sampling.seed = 1;
    expect(generator.run({{4}}, options)[0].tokens == found[1].tokens, "each as by itself");
    options.beams = options.returned_beams = 2;
    const std::vector<brigade::generation> best = generator.run({{4}}, options);
    expect(best.size() == 2 && best[0].score >= best[1].score && !best[0].text.empty(), "beams, the best first");
    expect_error([&] { generator.run({{300}}, options); }, BG_ERROR_INVALID, "token 0 is 300", "a token that is none");
}

int main(int, char **argv)
{
    try_own_op();
    try_session(argv[1]);
    try_readers();
    try_failures();
    try_progress();
    try_trainer();
    try_generator();
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
