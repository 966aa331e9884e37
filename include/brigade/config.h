/*
 * config.h: configurations as people bring them: the IPUConfig of Optimum Graphcore (`ipu_config.json`, also as YAML),
 * and options by name, from files and from the environment. Both end as the bg_options of options.h.
 *
 * Threads: one thread at a time while the object is made or changed; after that any number of threads may read it.
 *
 * Errors: BG_ERROR_INVALID for a value that cannot hold, BG_ERROR_PARSE, BG_ERROR_NOT_FOUND, BG_ERROR_IO,
 * BG_ERROR_MEMORY.
 *
 * Shapes: as the layer of nn.h that it stands for.
 */
#ifndef BRIGADE_CONFIG_H
#define BRIGADE_CONFIG_H

#include <brigade/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the IPU configuration ---- */

/*
 * Every field of Optimum's IPUConfig, by its name there; docs/configuration.md lists them. Fields that training and
 * inference may want differently have a twin, `inference_` and the name. What is not given is inferred from what is,
 * and inferred again after each change. A change that would make the configuration wrong is refused and changes
 * nothing; its error lists every problem there would be. Texts and lists that are returned last until the next change.
 * Not for several threads at once, unless all of them only read.
 */
typedef struct bg_ipu_config bg_ipu_config;

typedef enum bg_config_kind {
    BG_CONFIG_NULL = 0,
    BG_CONFIG_BOOL,
    BG_CONFIG_INTEGER,
    BG_CONFIG_REAL,
    BG_CONFIG_TEXT,
    BG_CONFIG_INTEGERS,
    BG_CONFIG_REALS,
    BG_CONFIG_MAP
} bg_config_kind;

typedef struct bg_config_value {
    bg_config_kind kind;
    bool boolean;
    int64_t integer;
    double real;      /* REAL; INTEGER: the same number */
    const char *text; /* TEXT; MAP: a JSON object */
    const int64_t *integers;
    const double *reals; /* REALS; INTEGERS: the same numbers */
    size_t count;        /* of the list */
} bg_config_value;

/* All defaults, training mode. */
BG_API bg_status bg_ipu_config_create(bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_clone(const bg_ipu_config *config, bg_ipu_config **out, bg_error *error);
BG_API void bg_ipu_config_destroy(bg_ipu_config *config);

/* "training" or "inference": which of the two a managed field's name without prefix means in get and set. */
BG_API bg_status bg_ipu_config_set_mode(bg_ipu_config *config, const char *mode, bg_error *error);
BG_API const char *bg_ipu_config_mode(const bg_ipu_config *config);

/* The fields by number, in the order of their names; NULL past the end. */
BG_API const char *bg_ipu_config_field_at(size_t index);
BG_API const char *bg_ipu_config_field_help(size_t index);

/* What holds: given, inferred or the default. Errors: BG_ERROR_NOT_FOUND (naming the nearest field). */
BG_API bg_status bg_ipu_config_get(const bg_ipu_config *config, const char *name, bg_config_value *out,
                                   bg_error *error);
/* NULL takes back what was given. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_INVALID. */
BG_API bg_status bg_ipu_config_set(bg_ipu_config *config, const char *name, const bg_config_value *value,
                                   bg_error *error);

/*
 * "key=value,key=value": numbers and texts as they are; true/1/y/yes, false/0/n/no; lists [1 2 3], also with commas;
 * null or none, for a field that takes null or whose text may be empty (executable_cache_dir), takes back what was
 * given; for another it is an error that names the field. Blanks around keys and values do not count. All of it happens
 * or none; keys are the fields' full names whatever the mode.
 */
BG_API bg_status bg_ipu_config_update_from_string(bg_ipu_config *config, const char *text, bg_error *error);

/* replicas x accumulation x iterations: what a call takes, in micro-batches. */
BG_API uint64_t bg_ipu_config_batch_size_factor(const bg_ipu_config *config, bool for_inference);
/* Of all fields as they hold; what files said beyond them does not count. */
BG_API bool bg_ipu_config_equal(const bg_ipu_config *a, const bg_ipu_config *b);
/* All fields as they hold, one a line, in the order of their names. malloc'ed. */
BG_API bg_status bg_ipu_config_print(const bg_ipu_config *config, char **out_text, bg_error *error);
/* What is unusual but no error, one a line: keys of the file that nobody knows, old names, settings without an effect.
 * malloc'ed; "" when there is nothing. */
BG_API bg_status bg_ipu_config_print_notes(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- files ---- */

#define BG_IPU_CONFIG_FILE "ipu_config.json"

typedef struct bg_ipu_config_load_options {
    size_t struct_bytes;   /* 0, or sizeof(bg_ipu_config_load_options): see base.h */
    bool keep_unknown;     /* a key that nobody knows is kept and noted instead of refused */
    const char *overrides; /* an update string that is read as part of the file; NULL: none */
} bg_ipu_config_load_options;

/*
 * From a file, or from ipu_config.json in a folder; a name that ends in .yaml or .yml is read as YAML. Keys that only
 * keep a record (versions) are kept, old names are taken with a note. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_IO,
 * BG_ERROR_PARSE (with line and column), BG_ERROR_INVALID (every problem, with its place), BG_ERROR_MEMORY.
 * options NULL: none.
 */
BG_API bg_status bg_ipu_config_load(const char *path, const bg_ipu_config_load_options *options, bg_ipu_config **out,
                                    bg_error *error);
/* From text; `name` is what errors call it. */
BG_API bg_status bg_ipu_config_parse_json(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_parse_yaml(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);

/* Whether the strings and files below contain the version of Brigade as `brigade_version`, which Optimum does not know.
 * True at first: a configuration that was made here names it, one that was loaded names what its file named. */
BG_API void bg_ipu_config_set_version_written(bg_ipu_config *config, bool is_written);
/* As ipu_config.json in a folder, which is made when it is missing. A path to a regular file is an error. */
BG_API bg_status bg_ipu_config_save(const bg_ipu_config *config, const char *folder, bg_error *error);
/*
 * The text of such a file. A configuration that was made here has every field, null where the value is inferred, so
 * that it is inferred again after a change of what was read back; one that was loaded has the keys of its file and
 * those given since, so that a file that is loaded and saved stays as it was, byte for byte when it is laid out as
 * Optimum does it. malloc'ed.
 */
BG_API bg_status bg_ipu_config_print_json(const bg_ipu_config *config, char **out_text, bg_error *error);
BG_API bg_status bg_ipu_config_print_yaml(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- layers on devices ---- */

/*
 * How many of `layer_count` layers each of `device_count` devices gets: [1, 2, -1, -1] of 12 on 4 is [1, 2, 4, 5].
 * Wildcards (-1) share what the others leave, the last takes what does not divide; [-1] alone is an even split over all
 * devices; one device gets all. `out` has device_count elements. Errors: BG_ERROR_INVALID.
 */
BG_API bg_status bg_layers_expand(const int64_t *layers, size_t count, uint32_t device_count, uint64_t layer_count,
                                  int64_t *out, bg_error *error);

/* Layers of an encoder on the first devices and of a decoder on the others; neither shares a device. Of several places
 * to part, the last one with a power of two of devices for the encoder. Fields of the current mode are divided, the
 * others copied. Needs at least two devices. */
BG_API bg_status bg_ipu_config_split_encoder_decoder(const bg_ipu_config *config, uint64_t encoder_layers,
                                                     uint64_t decoder_layers, bg_ipu_config **out_encoder,
                                                     bg_ipu_config **out_decoder, bg_error *error);

/* ---- to runtime options ---- */

/* What a configuration has to know of the model. All-zero: nothing. */
typedef struct bg_ipu_model {
    size_t struct_bytes;             /* 0, or sizeof(bg_ipu_model): see base.h */
    uint64_t layer_count;            /* 0: unknown; an encoder's and a decoder's together */
    const char *const *layer_blocks; /* the graph's block of each layer; NULL: "Layer-0", "Layer-1", ... */
    const char *embedding_block;     /* what precedes the layers, on device 0; NULL: nothing */
    const char *head_block;          /* what follows them, on the last device; NULL: nothing */
    bool head_is_tied;               /* the head uses the embedding's weights: on device 0 with it */
} bg_ipu_model;

/* Options and what they point into; notes say, a line each, what the configuration asks for that options have no word
 * for. All-zero is valid and empty. */
typedef struct bg_ipu_options {
    bg_options options;
    char *stages, *cache_dir;
    double *matmul_proportions;
    char *notes; /* "": none */
} bg_ipu_options;

/*
 * Training: pipelined, mean over accumulation and replicas. Inference: sharded, all outputs, no accumulation. With a
 * model's layers the stages are as layers_per_ipu says (devices without any are left out; where data come back
 * to a device, as for a tied head, the schedule is "grouped"), else they are the graph's own, by auto_increment.
 * `compile_only` is that of bg_options. Errors: BG_ERROR_INVALID (layers and devices do not fit), BG_ERROR_UNSUPPORTED
 * (execute_encoder_on_cpu_for_generation).
 */
BG_API bg_status bg_ipu_config_to_options(const bg_ipu_config *config, bool for_inference, bool compile_only,
                                          const bg_ipu_model *model, bg_ipu_options *out, bg_error *error);
BG_API void bg_ipu_options_clear(bg_ipu_options *options);

/*
 * The embedding and the output layer as a configuration wants them: plain, by its factor in pieces one after the other,
 * or by its splits in pieces on their devices, in blocks of their own (bg_split_placement) that the stages of
 * bg_ipu_config_to_options have in place of embedding_block and head_block. What follows the pieces is in the last
 * one's block: the loss in that of the projection's. Call them outside scopes (bg_block_begin). Errors are the graph's.
 */
BG_API bg_value bg_ipu_embedding_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                       const char *name, bg_value ids, int64_t row_count, int64_t width,
                                       int64_t padding_index, bg_dtype dtype);
BG_API bg_value bg_ipu_projection_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                        const char *name, bg_value x, int64_t out_features, bool bias);

/* ---- options by name ---- */

/* An option by its name in bg_options (or PopTorch's: deviceIterations, outputMode "OutputMode.All") from text.
 * `stages` and `cache_dir` are borrowed: the text must live as long as the options. Lists and callbacks are set in C.
 * Errors: BG_ERROR_NOT_FOUND (naming the nearest option), BG_ERROR_INVALID (with what would be right). */
BG_API bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error);
/* All that has a name, one a line; then, as comments, anchors, location rules and models of devices. malloc'ed. */
BG_API bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error);

/* ---- options that own what they hold ---- */

typedef struct bg_run_options bg_run_options;

/* A deep copy of `from` (NULL: the defaults); callbacks stay the user's. */
BG_API bg_status bg_run_options_create(const bg_options *from, bg_run_options **out, bg_error *error);
BG_API void bg_run_options_destroy(bg_run_options *options);
/* A deep copy that is not frozen. */
BG_API bg_status bg_run_options_clone(const bg_run_options *options, bg_run_options **out, bg_error *error);
/* For a plan, a trainer, a look at them. bg_run_options_use freezes: from then on setting is an error that says so.
 * Borrowed. */
BG_API const bg_options *bg_run_options_view(const bg_run_options *options);
BG_API const bg_options *bg_run_options_use(bg_run_options *options);
/* bg_options_set with texts copied, and lists: device_mapping "0,1,1,0". Errors: also BG_ERROR_INVALID when frozen. */
BG_API bg_status bg_run_options_set(bg_run_options *options, const char *name, const char *text, bg_error *error);
/* The same with a value of the option's kind: numbers for numbers, texts for texts and names ("every_n"), lists for
 * lists; BG_CONFIG_NULL is the default. Errors: also BG_ERROR_INVALID for a value of another kind. */
BG_API bg_status bg_run_options_set_value(bg_run_options *options, const char *name, const bg_config_value *value,
                                          bg_error *error);
BG_API bg_status bg_run_options_set_integer(bg_run_options *options, const char *name, int64_t value, bg_error *error);
BG_API bg_status bg_run_options_set_text(bg_run_options *options, const char *name, const char *value, bg_error *error);
/* options.execution.transport, for bindings that cannot set the struct's field: the processes that share the devices
 * (brigade/transport.h), NULL for none. The transport stays the caller's. Errors: BG_ERROR_INVALID when frozen. */
BG_API bg_status bg_run_options_set_transport(bg_run_options *options, const struct bg_transport *transport,
                                              bg_error *error);
/* One more anchor, as PopTorch's anchorTensor: `output` of the graph, or what an op makes, is returned as `name` (NULL:
 * the same) in a mode of its own (bg_output_request; `period` for BG_OUTPUT_EVERY_N). Errors: BG_ERROR_INVALID: frozen,
 * no output, a mode that is none, a name that is taken. */
BG_API bg_status bg_run_options_add_anchor(bg_run_options *options, const char *output, const char *name,
                                           bg_output_mode mode, uint32_t period, bg_error *error);
/* What holds; texts and lists live as long as `options`. A seed from 2^63 on is a text. Errors: BG_ERROR_NOT_FOUND. */
BG_API bg_status bg_run_options_get(bg_run_options *options, const char *name, bg_config_value *out, bg_error *error);
/*
 * Several at once, all or none; an error names every problem with its place ("file:line: ..."). A text that begins with
 * { is JSON, {"deviceIterations": 7, "outputMode": ["OutputMode.EveryN", 2]}; others have an option a line, "name
 * value", "name=value" or "name(value)", and comments from # on. `name` is what errors call the text. Later ones
 * override. Errors: BG_ERROR_INVALID, BG_ERROR_PARSE, BG_ERROR_NOT_FOUND and BG_ERROR_IO of files.
 */
BG_API bg_status bg_run_options_parse(bg_run_options *options, const char *text, const char *name, bg_error *error);
BG_API bg_status bg_run_options_load(bg_run_options *options, const char *path, bg_error *error);
/* From this variable, when it is set: JSON, or words "name=value name=value". */
#define BG_OPTIONS_VARIABLE "BRIGADE_OPTIONS"
BG_API bg_status bg_run_options_read_environment(bg_run_options *options, bg_error *error);
/* Whether the option was set by one of the above. */
BG_API bool bg_run_options_is_given(const bg_run_options *options, const char *name);
/* Those that were, into `to`, which points into `options` from then on; freezes. */
BG_API void bg_run_options_apply(bg_run_options *options, bg_options *to);
/* As JSON that bg_run_options_parse reads; bg_options_print for lines. malloc'ed. */
BG_API bg_status bg_run_options_print_json(const bg_run_options *options, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
