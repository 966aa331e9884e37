/*
 * brigade.hpp: the interface for C++11 and later, in one header. Objects destroy what they own, failures are
 * exceptions, and text is std::string.
 *
 *     brigade::graph graph;
 *     bg_value x = graph.input("x", BG_FLOAT32, {4, 2});
 *     bg_value hidden = bg_tanh(graph, bg_linear_layer(graph, "fc1", x, 8, true));
 *
 * The interface is thin. Every object converts to the pointer of the C interface, so each C function can be called with
 * the object, and brigade::call() turns a status into an exception:
 *
 *     brigade::dataset part;
 *     brigade::call(bg_dataset_take, all, uint64_t{3200}, part.out());
 *
 * The C headers describe each function and the threads that may call it. Objects can be moved but not copied. An object
 * that was moved from holds NULL.
 */
#ifndef BRIGADE_BRIGADE_HPP
#define BRIGADE_BRIGADE_HPP

#include <brigade.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace brigade
{

/* ---- failures ---- */

/* A failure of the library: what() is the message of the bg_error. */
class error : public std::runtime_error
{
  public:
    explicit error(const bg_error &cause) : std::runtime_error(cause.message), cause_(cause)
    {
    }

    bg_status status() const noexcept
    {
        return cause_.status;
    }
    const bg_error &cause() const noexcept
    {
        return cause_;
    }

  private:
    bg_error cause_;
};

/* Throws when `status` is a failure. */
inline void check(bg_status status, const bg_error &cause)
{
    if (status != BG_OK)
        throw error(cause);
}

namespace detail
{

[[noreturn]] inline void fail(bg_status status, const std::string &message)
{
    bg_error cause;

    bg_error_clear(&cause);
    bg_error_set(&cause, status, "%s", message.c_str());
    throw error(cause);
}

} // namespace detail

/* Calls a function that returns a bg_status, with a bg_error after `arguments`, and throws when the function fails. */
template <class... Parameters, class... Arguments>
void call(bg_status (*function)(Parameters...), Arguments &&...arguments)
{
    bg_error cause;

    bg_error_clear(&cause);
    check(function(std::forward<Arguments>(arguments)..., &cause), cause);
}

/* Calls a function that prints, returns the text, and frees the memory of the C string. */
template <class... Parameters, class... Arguments>
std::string text(bg_status (*function)(Parameters...), Arguments &&...arguments)
{
    char *made = nullptr;

    call(function, std::forward<Arguments>(arguments)..., &made);
    const std::unique_ptr<char, void (*)(void *)> owned(made, std::free);
    return std::string(made);
}

/* ---- owners ---- */

/* Owns an object of the library. */
template <class Object, void (*destroy)(Object *)> class owner
{
  public:
    owner() noexcept = default;
    explicit owner(Object *object) noexcept : object_(object)
    {
    }
    owner(owner &&other) noexcept : object_(other.release())
    {
    }
    owner &operator=(owner &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner()
    {
        destroy(object_);
    }

    Object *get() const noexcept
    {
        return object_;
    }
    operator Object *() const noexcept
    {
        return object_;
    }

    /* Releases the object: the caller must destroy it. */
    Object *release() noexcept
    {
        Object *const object = object_;

        object_ = nullptr;
        return object;
    }
    void reset(Object *object = nullptr) noexcept
    {
        Object *const old = object_;

        object_ = object;
        if (old != object)
            destroy(old);
    }
    /* Returns the address for the `out` parameter of a C function, and first destroys an object that is already
     * owned. */
    Object **out() noexcept
    {
        reset();
        return &object_;
    }

  private:
    Object *object_ = nullptr;
};

using dataset = owner<bg_dataset, bg_dataset_destroy>;
using loader = owner<bg_loader, bg_loader_destroy>;
using infeed = owner<bg_infeed, bg_infeed_destroy>;
using outfeed = owner<bg_outfeed, bg_outfeed_destroy>;
using tokenizer = owner<bg_tokenizer, bg_tokenizer_destroy>;
using onnx = owner<bg_onnx, bg_onnx_destroy>;

/* ---- types ---- */

/* The element types that correspond to C++ types. */
template <class Element> struct dtype_of;
template <> struct dtype_of<float> {
    static constexpr bg_dtype value = BG_FLOAT32;
};
template <> struct dtype_of<double> {
    static constexpr bg_dtype value = BG_FLOAT64;
};
template <> struct dtype_of<int32_t> {
    static constexpr bg_dtype value = BG_INT32;
};
template <> struct dtype_of<int64_t> {
    static constexpr bg_dtype value = BG_INT64;
};
template <> struct dtype_of<uint8_t> {
    static constexpr bg_dtype value = BG_UINT8;
};

/* Makes a type; throws if the shape is invalid. */
inline bg_type make_type(bg_dtype dtype, const std::vector<int64_t> &dims)
{
    if (dims.size() > BG_MAX_RANK)
        detail::fail(BG_ERROR_SHAPE, "the shape has " + std::to_string(dims.size()) +
                                         " dimensions but may have at most " + std::to_string(BG_MAX_RANK));
    const bg_type type = bg_type_make(dtype, static_cast<uint32_t>(dims.size()), dims.data());

    call(bg_type_validate, &type);
    return type;
}

inline std::string to_string(const bg_type &type)
{
    char made[BG_TYPE_TEXT_BYTES];

    return bg_type_text(&type, made);
}

/* ---- graphs ---- */

/* A model. Building is sticky, as in C: check() and making a plan throw the first error. */
class graph : public owner<bg_graph, bg_graph_destroy>
{
  public:
    graph()
    {
        call(bg_graph_create, out());
    }

    bg_value input(const std::string &name, bg_dtype dtype, const std::vector<int64_t> &dims)
    {
        const bg_type type = make_type(dtype, dims);

        return bg_graph_input(get(), name.c_str(), &type);
    }
    template <class Element>
    bg_value constant(const std::string &name, const std::vector<int64_t> &dims, const std::vector<Element> &values)
    {
        const bg_type type = make_type(dtype_of<Element>::value, dims);

        if (bg_type_element_count(&type) != static_cast<int64_t>(values.size()))
            detail::fail(BG_ERROR_SHAPE, "constant `" + name + "` is " + to_string(type) + " but has " +
                                             std::to_string(values.size()) + " elements");
        return bg_graph_constant(get(), name.c_str(), &type, values.data());
    }
    bg_value parameter(const std::string &name, bg_dtype dtype, const std::vector<int64_t> &dims,
                       const bg_initializer &initializer)
    {
        const bg_type type = make_type(dtype, dims);

        return bg_graph_parameter(get(), name.c_str(), &type, &initializer);
    }
    void output(const std::string &name, bg_value value)
    {
        bg_graph_output(get(), name.c_str(), value);
    }
    /* Begins the next block, which is a separate stage in a pipeline unless options assign it otherwise. */
    void block(const std::string &name, uint32_t device = BG_DEVICE_NONE)
    {
        bg_block_start(get(), name.c_str(), device);
    }
    bg_type type(bg_value value) const
    {
        return bg_graph_type(get(), value);
    }
    void check() const
    {
        call(bg_graph_check, get());
    }
    std::string print() const
    {
        return text(bg_graph_print, get());
    }
};

/* While a scope exists, names that are added get `name` and a dot as prefix (bg_scope_begin). */
class scope
{
  public:
    scope(bg_graph *graph, const std::string &name) : graph_(graph)
    {
        bg_scope_begin(graph, "%s", name.c_str());
    }
    ~scope()
    {
        bg_scope_end(graph_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    bg_graph *graph_;
};

/* ---- options ---- */

/* Options that own their strings and lists; the names are those of docs/options.md. Functions that take options also
 * accept the C struct of bg_options_defaults(). */
class options
{
  public:
    options()
    {
        call(bg_run_options_create, nullptr, options_.out());
    }

    options &set(const std::string &name, const std::string &value)
    {
        call(bg_run_options_set, options_.get(), name.c_str(), value.c_str());
        return *this;
    }
    options &set(const std::string &name, const char *value)
    {
        return set(name, std::string(value));
    }
    options &set(const std::string &name, bool value)
    {
        return set(name, std::string(value ? "true" : "false"));
    }
    options &set(const std::string &name, long long value)
    {
        return set(name, std::to_string(value));
    }
    options &set(const std::string &name, int value)
    {
        return set(name, std::to_string(value));
    }
    options &set(const std::string &name, unsigned value)
    {
        return set(name, std::to_string(value));
    }
    /* Sets a function that reports the progress of work with plans of these options (bg_reporting_options). The
     * function cancels the work by returning true or throwing. The options must outlive the plans. A later call
     * replaces the function; an empty function is not called. */
    using progress_function = std::function<bool(const char *what, uint64_t done, uint64_t total)>;
    options &progress(progress_function function)
    {
        bg_reporting_options &reporting = const_cast<bg_options *>(bg_run_options_view(options_))->reporting;

        if (progress_ == nullptr)
            progress_.reset(new progress_function());
        *progress_ = std::move(function);
        reporting.progress = ask;
        reporting.progress_user = progress_.get();
        return *this;
    }
    /* Prints all named options, one on each line. */
    std::string print() const
    {
        return text(bg_options_print, bg_run_options_view(options_));
    }
    operator const bg_options *() const noexcept
    {
        return bg_run_options_view(options_);
    }

  private:
    static bool ask(void *user, const char *what, uint64_t done, uint64_t total)
    {
        const progress_function &function = *static_cast<const progress_function *>(user);

        try {
            return function && function(what, done, total);
        } catch (...) {
            return true;
        }
    }

    owner<bg_run_options, bg_run_options_destroy> options_;
    std::unique_ptr<progress_function> progress_;
};

/* ---- plans ---- */

class plan : public owner<bg_plan, bg_plan_destroy>
{
  public:
    plan() noexcept = default;

    static plan training(const bg_graph *graph, bg_value loss, const bg_optimizer &optimizer,
                         const bg_options *options = nullptr)
    {
        const bg_options defaults = bg_options_defaults();
        plan made;

        call(bg_plan_create_training, graph, loss, &optimizer, options != nullptr ? options : &defaults, made.out());
        return made;
    }
    static plan inference(const bg_graph *graph, const bg_options *options = nullptr)
    {
        const bg_options defaults = bg_options_defaults();
        plan made;

        call(bg_plan_create_inference, graph, options != nullptr ? options : &defaults, made.out());
        return made;
    }

    bg_plan_summary summary() const
    {
        return bg_plan_summarize(get());
    }
    std::string print_memory() const
    {
        return text(bg_plan_print_memory, get());
    }
    std::string print_placement() const
    {
        return text(bg_plan_print_placement, get());
    }
    std::string print_timetable() const
    {
        return text(bg_plan_print_timetable, get());
    }
};

/* ---- weights ---- */

/* The result for each tensor of a file. */
class weights_report
{
  public:
    weights_report() noexcept : report_()
    {
    }
    weights_report(weights_report &&other) noexcept : report_(other.report_)
    {
        other.report_ = bg_weights_report();
    }
    weights_report &operator=(weights_report &&other) noexcept
    {
        std::swap(report_, other.report_);
        return *this;
    }
    weights_report(const weights_report &) = delete;
    weights_report &operator=(const weights_report &) = delete;
    ~weights_report()
    {
        bg_weights_report_clear(&report_);
    }

    uint32_t count(bg_weights_outcome outcome) const
    {
        return report_.counts[outcome];
    }
    const bg_weights_result *begin() const noexcept
    {
        return report_.results;
    }
    const bg_weights_result *end() const noexcept
    {
        return report_.results == nullptr ? nullptr : report_.results + report_.result_count;
    }
    /* Prints one line for each tensor that was not loaded unchanged. */
    std::string print() const
    {
        return text(bg_weights_report_print, &report_);
    }
    bg_weights_report *get() noexcept
    {
        return &report_;
    }

  private:
    bg_weights_report report_;
};

/* Named tensors that sessions share. The static functions work on weights that bg_session_weights() returns. */
class weights : public owner<bg_weights, bg_weights_destroy>
{
  public:
    weights()
    {
        call(bg_weights_create, out());
    }

    /* Returns the newest value, whose data are valid until the next call on the weights. */
    bg_weight find(const std::string &name) const
    {
        return find(get(), name);
    }
    static bg_weight find(bg_weights *from, const std::string &name)
    {
        bg_weight found;

        call(bg_weights_find, from, name.c_str(), &found);
        return found;
    }
    /* Returns a copy of the newest value. */
    template <class Element> std::vector<Element> values(const std::string &name) const
    {
        return values<Element>(get(), name);
    }
    template <class Element> static std::vector<Element> values(bg_weights *from, const std::string &name)
    {
        const bg_weight found = find(from, name);

        if (found.type.dtype != dtype_of<Element>::value)
            detail::fail(BG_ERROR_SHAPE, "`" + name + "` is " + to_string(found.type) + " but was read as " +
                                             bg_dtype_name(dtype_of<Element>::value));
        const Element *const data = static_cast<const Element *>(found.data);
        return std::vector<Element>(data, data + bg_type_element_count(&found.type));
    }
    template <class Element>
    void set(const std::string &name, const std::vector<int64_t> &dims, const std::vector<Element> &values)
    {
        const bg_type type = make_type(dtype_of<Element>::value, dims);

        if (bg_type_element_count(&type) != static_cast<int64_t>(values.size()))
            detail::fail(BG_ERROR_SHAPE, "`" + name + "` is " + to_string(type) + " but gets " +
                                             std::to_string(values.size()) + " elements");
        call(bg_weights_set, get(), name.c_str(), &type, values.data());
    }
    weights_report load(const std::string &path, const bg_weights_load_options *options = nullptr)
    {
        return load(get(), path, options);
    }
    static weights_report load(bg_weights *into, const std::string &path,
                               const bg_weights_load_options *options = nullptr)
    {
        const bg_weights_load_options defaults = bg_weights_load_defaults();
        weights_report report;

        call(bg_weights_load, into, path.c_str(), options != nullptr ? options : &defaults, report.get());
        return report;
    }
    void save(const std::string &path, const bg_weights_save_options *options = nullptr) const
    {
        save(get(), path, options);
    }
    static void save(bg_weights *from, const std::string &path, const bg_weights_save_options *options = nullptr)
    {
        const bg_weights_save_options defaults = bg_weights_save_defaults();

        call(bg_weights_save, from, path.c_str(), options != nullptr ? options : &defaults);
    }
    /* Publishes the newest values for readers; returns the version. */
    uint64_t publish()
    {
        return publish(get());
    }
    static uint64_t publish(bg_weights *from)
    {
        uint64_t version = 0;

        call(bg_weights_publish, from, &version);
        return version;
    }
};

/* ---- sessions ---- */

/* An array of a run, by the name of its input. */
struct input {
    template <class Element>
    input(std::string input_name, const std::vector<Element> &values)
        : input(std::move(input_name), values.data(), values.size())
    {
    }
    template <class Element>
    input(std::string input_name, const Element *values, size_t count)
        : name(std::move(input_name)), data(values), size_bytes(count * sizeof(Element)),
          dtype(dtype_of<Element>::value)
    {
    }
    /* An array of an element type for which C++ has no type. */
    input(std::string input_name, bg_dtype elements, const void *values, size_t bytes)
        : name(std::move(input_name)), data(values), size_bytes(bytes), dtype(elements)
    {
    }
    std::string name;
    const void *data;
    size_t size_bytes;
    bg_dtype dtype;
};

/* The memory to which a run writes an output. A vector gets the output's size. */
struct output {
    template <class Element>
    output(std::string output_name, std::vector<Element> &values)
        : name(std::move(output_name)), dtype(dtype_of<Element>::value), place([&values](size_t size_bytes) -> void * {
              values.resize(size_bytes / sizeof(Element));
              return values.data();
          })
    {
    }
    template <class Element>
    output(std::string output_name, Element *values, size_t count)
        : output(std::move(output_name), dtype_of<Element>::value, values, count * sizeof(Element))
    {
    }
    output(std::string output_name, bg_dtype elements, void *values, size_t bytes)
        : name(output_name), dtype(elements), place([output_name, values, bytes](size_t wanted) -> void * {
              if (bytes != wanted)
                  detail::fail(BG_ERROR_SHAPE, "output `" + output_name + "` has " + std::to_string(wanted) +
                                                   " bytes but its memory has " + std::to_string(bytes));
              return values;
          })
    {
    }
    std::string name;
    bg_dtype dtype;
    std::function<void *(size_t)> place;
};

class session : public owner<bg_session, bg_session_destroy>
{
  public:
    session() noexcept = default;
    /* Makes a session of a plan, which must outlive the session. */
    explicit session(const bg_plan *plan, bg_weights *weights = nullptr)
    {
        call(bg_session_create, plan, weights, out());
    }
    /* Makes a session that owns its plan. The graph may be destroyed. */
    static session training(const bg_graph *graph, bg_value loss, const bg_optimizer &optimizer,
                            const bg_options *options = nullptr, bg_weights *weights = nullptr)
    {
        session made;

        call(bg_session_create_training, graph, loss, &optimizer, options, weights, made.out());
        return made;
    }
    static session inference(const bg_graph *graph, bg_weights *weights, const bg_options *options = nullptr)
    {
        session made;

        call(bg_session_create_inference, graph, options, weights, made.out());
        return made;
    }
    /* Makes a session for inference in one thread over published weights, concurrently with other sessions. */
    static session reader(const bg_plan *plan, bg_weights *weights)
    {
        session made;

        call(bg_session_create_reader, plan, weights, made.out());
        return made;
    }

    /* Borrowed. */
    bg_weights *weights() const
    {
        return bg_session_weights(get());
    }

    /* Runs the session once. Every input must be given once; outputs that are not named are not returned. */
    void run(const std::vector<input> &inputs, const std::vector<output> &outputs)
    {
        std::vector<const void *> from(bg_session_input_count(get()), nullptr);
        std::vector<void *> to(bg_session_output_count(get()), nullptr);

        for (const input &given : inputs)
            from[place(given, from)] = given.data;
        for (size_t i = 0; i < from.size(); i++)
            if (from[i] == nullptr)
                detail::fail(BG_ERROR_INVALID, "the run lacks input `" + std::string(stream(true, i).name) + "`");
        for (const output &wanted : outputs)
            find_place(wanted, to);
        run(from.data(), to.data());
    }
    void run(const void *const *inputs, void *const *outputs)
    {
        call(bg_session_run, get(), inputs, outputs);
    }

  private:
    bg_stream stream(bool is_input, size_t index) const
    {
        bg_stream found;

        call(is_input ? bg_session_input : bg_session_output, get(), static_cast<uint32_t>(index), &found);
        return found;
    }
    static void check_type(const char *kind, const std::string &name, const bg_stream &stream, bg_dtype dtype)
    {
        if (stream.micro_batch_type.dtype != dtype)
            detail::fail(BG_ERROR_SHAPE, std::string(kind) + " `" + name + "` has elements of " +
                                             bg_dtype_name(stream.micro_batch_type.dtype) + " but is given as " +
                                             bg_dtype_name(dtype));
    }
    size_t place(const input &given, const std::vector<const void *> &from) const
    {
        const uint32_t index = bg_session_find_input(get(), given.name.c_str());

        if (index == UINT32_MAX)
            detail::fail(BG_ERROR_NOT_FOUND, "the session has no input `" + given.name + "`");
        if (from[index] != nullptr)
            detail::fail(BG_ERROR_INVALID, "input `" + given.name + "` is given twice");
        const bg_stream found = stream(true, index);
        check_type("input", given.name, found, given.dtype);
        if (given.size_bytes != found.size_bytes)
            detail::fail(BG_ERROR_SHAPE, "input `" + given.name + "` has " + std::to_string(given.size_bytes) +
                                             " bytes but a run needs " + std::to_string(found.size_bytes) + ": " +
                                             std::to_string(found.count) + " micro-batches of " +
                                             to_string(found.micro_batch_type));
        return index;
    }
    void find_place(const output &wanted, std::vector<void *> &to) const
    {
        const uint32_t index = bg_session_find_output(get(), wanted.name.c_str());

        if (index == UINT32_MAX)
            detail::fail(BG_ERROR_NOT_FOUND, "the session has no output `" + wanted.name + "`");
        const bg_stream found = stream(false, index);
        check_type("output", wanted.name, found, wanted.dtype);
        to[index] = wanted.place(found.size_bytes);
    }
};

/* ---- trainers ---- */

/* A bg_trainer with C++ functions. An exception from such a function ends the trainer's function, which rethrows the
 * exception. `options` are bg_trainer_options_defaults() with changes; memory that they point to must outlive the
 * trainer. */
class trainer
{
  public:
    using model_function = std::function<bg_value(bg_graph *graph, bg_trainer_task task, int64_t micro_batch)>;
    using event_function = std::function<void(bg_trainer_event &event)>;

    trainer(bg_trainer_options options, model_function model, event_function on_event = event_function(),
            bg_weights *weights = nullptr)
        : state_(new state)
    {
        state_->model = std::move(model);
        state_->on_event = std::move(on_event);
        state_->callbacks.assign(options.callbacks, options.callbacks + options.callback_count);
        if (state_->on_event)
            state_->callbacks.push_back(bg_trainer_callback{hear, state_.get()});
        options.callbacks = state_->callbacks.data();
        options.callback_count = static_cast<uint32_t>(state_->callbacks.size());
        options.model = build;
        options.model_user = state_.get();
        call(bg_trainer_create, &options, weights, state_->object.out());
    }

    bg_trainer *get() const noexcept
    {
        return state_->object;
    }
    operator bg_trainer *() const noexcept
    {
        return get();
    }

    void fit(const bg_trainer_data &training, const bg_trainer_data *validation = nullptr)
    {
        run(bg_trainer_fit, &training, validation);
    }
    void fit(const bg_dataset *training, const bg_dataset *validation = nullptr)
    {
        const bg_trainer_data first = data(training), second = data(validation);

        run(bg_trainer_fit, &first, validation != nullptr ? &second : nullptr);
    }
    void validate(const bg_trainer_data &data)
    {
        run(bg_trainer_validate, &data);
    }
    void test(const bg_trainer_data &data)
    {
        run(bg_trainer_test, &data);
    }
    void test(const bg_dataset *samples)
    {
        const bg_trainer_data all = data(samples);

        run(bg_trainer_test, &all);
    }

    /* Borrowed. */
    bg_weights *weights() const
    {
        return bg_trainer_weights(get());
    }
    uint64_t step() const
    {
        return bg_trainer_step(get());
    }
    bg_trainer_metric metric(bg_trainer_task task, const std::string &name) const
    {
        bg_trainer_metric found;

        call(bg_trainer_metric_find, get(), task, name.c_str(), &found);
        return found;
    }

    /* Data with all samples of a data set, and default options. */
    static bg_trainer_data data(const bg_dataset *samples)
    {
        bg_trainer_data made = bg_trainer_data();

        made.dataset = samples;
        return made;
    }

  private:
    /* The state is on the heap, so that its address stays the same when the trainer is moved. */
    struct state {
        model_function model;
        event_function on_event;
        std::vector<bg_trainer_callback> callbacks;
        std::exception_ptr thrown;
        owner<bg_trainer, bg_trainer_destroy> object; /* destroyed first */
    };

    static bg_value build(void *user, bg_graph *graph, bg_trainer_task task, int64_t micro_batch)
    {
        state *const self = static_cast<state *>(user);

        try {
            return self->model(graph, task, micro_batch);
        } catch (...) {
            self->thrown = std::current_exception();
            bg_graph_fail(graph, BG_ERROR_CANCELED, "the model's function threw an exception");
            return bg_value();
        }
    }
    static bg_status hear(void *user, bg_trainer_event *event, bg_error *cause)
    {
        state *const self = static_cast<state *>(user);

        try {
            self->on_event(*event);
            return BG_OK;
        } catch (...) {
            self->thrown = std::current_exception();
            return bg_error_set(cause, BG_ERROR_CANCELED, "a callback threw an exception");
        }
    }
    template <class... Parameters, class... Arguments>
    void run(bg_status (*function)(bg_trainer *, Parameters...), Arguments... arguments)
    {
        state_->thrown = nullptr;
        try {
            call(function, get(), arguments...);
        } catch (const error &) {
            if (state_->thrown)
                std::rethrow_exception(state_->thrown);
            throw;
        }
    }

    std::unique_ptr<state> state_;
};

/* ---- generating ---- */

/* The tokens that were added to a prompt. */
struct generation {
    std::vector<uint32_t> tokens;
    std::string text; /* empty without a tokenizer */
    bg_generation_end end;
    double log_share, score;
};

/* A GPT that continues sequences of tokens, `sequences` at the same time. */
class generator : public owner<bg_generator, bg_generator_destroy>
{
  public:
    generator(const bg_gpt_options &model, bg_weights *weights, uint32_t sequences = 1,
              const bg_options *options = nullptr)
    {
        call(bg_generator_create_batch, &model, options, weights, sequences, out());
    }

    /* Continues prompts. The result has options.returned_beams adjacent elements for each prompt. Prompt i has the seed
     * options.sampling.seed + i. */
    std::vector<generation> run(const std::vector<std::vector<uint32_t>> &prompts,
                                const bg_generation_options &options = bg_generation_defaults()) const
    {
        std::vector<bg_generation_prompt> given(prompts.size());
        results made(prompts.size() * options.returned_beams);
        std::vector<generation> found;

        for (size_t i = 0; i < prompts.size(); i++)
            given[i] = bg_generation_prompt{prompts[i].data(), prompts[i].size(), options.sampling.seed + i};
        call(bg_generator_run, get(), given.data(), static_cast<uint32_t>(given.size()), &options, made.list.data());
        for (const bg_generation &each : made.list)
            found.push_back(generation{std::vector<uint32_t>(each.tokens, each.tokens + each.count),
                                       each.text != nullptr ? std::string(each.text, each.text_bytes) : std::string(),
                                       each.end, each.log_share, each.score});
        return found;
    }

  private:
    struct results {
        explicit results(size_t count) : list(count)
        {
        }
        ~results()
        {
            bg_generation_clear(list.data(), list.size());
        }
        results(const results &) = delete;
        results &operator=(const results &) = delete;
        std::vector<bg_generation> list;
    };
};

} // namespace brigade

#endif
