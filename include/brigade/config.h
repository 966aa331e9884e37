/*
 * config.h: the IPUConfig of Optimum Graphcore (`ipu_config.json`, also as YAML), and options by name from files and
 * from the environment. Both the IPUConfig and the options by name become the bg_options of options.h.
 *
 * Threads: one thread at a time creates or changes an object, and no other thread uses it meanwhile; otherwise any
 * number of threads may read it.
 *
 * Errors: BG_ERROR_INVALID for a value that is out of range or contradicts another, BG_ERROR_PARSE, BG_ERROR_NOT_FOUND,
 * BG_ERROR_IO, BG_ERROR_MEMORY.
 *
 * Shapes: those of the corresponding layer in nn.h.
 */
#ifndef BRIGADE_CONFIG_H
#define BRIGADE_CONFIG_H

#include <brigade/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the IPU configuration ---- */

/*
 * Holds every field of Optimum's IPUConfig, under the same name; docs/configuration.md lists them. A field that may
 * differ between training and inference has a second form, named `inference_` plus the field's name. Fields that are
 * not given are inferred from the given ones, and inferred again after each change. A change that would make the
 * configuration wrong is refused and changes nothing; the error lists every problem of the changed configuration.
 * Returned strings and lists are valid until the next change.
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
    size_t count;        /* length of the list */
} bg_config_value;

/* Creates a configuration with all defaults, in training mode. */
BG_API bg_status bg_ipu_config_create(bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_clone(const bg_ipu_config *config, bg_ipu_config **out, bg_error *error);
BG_API void bg_ipu_config_destroy(bg_ipu_config *config);

/* Sets the mode, "training" or "inference", which decides to which form of a field a name without `inference_` refers
 * in bg_ipu_config_get and bg_ipu_config_set. */
BG_API bg_status bg_ipu_config_set_mode(bg_ipu_config *config, const char *mode, bg_error *error);
BG_API const char *bg_ipu_config_mode(const bg_ipu_config *config);

/* Return the name and the description of field `index` of the fields sorted by name; NULL past the end. */
BG_API const char *bg_ipu_config_field_at(size_t index);
BG_API const char *bg_ipu_config_field_help(size_t index);

/* Sets *out to the current value of a field: the given value, the inferred one or the default. Errors:
 * BG_ERROR_NOT_FOUND (the message has the most similar name of a field). */
BG_API bg_status bg_ipu_config_get(const bg_ipu_config *config, const char *name, bg_config_value *out,
                                   bg_error *error);
/* Sets a field; a `value` of NULL removes the given value. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_INVALID,
 * BG_ERROR_MEMORY. */
BG_API bg_status bg_ipu_config_set(bg_ipu_config *config, const char *name, const bg_config_value *value,
                                   bg_error *error);

/*
 * Sets fields from a string "key=value,key=value". Truth values are true/1/y/yes or false/0/n/no, and lists are [1 2 3]
 * or [1, 2, 3]. For a field that accepts null or an empty string (executable_cache_dir), the words null and none remove
 * the given value; for other fields they are an error that names the field. Whitespace around keys and values is
 * ignored. On failure nothing changes. The mode has no effect: a key is the full name of a field.
 */
BG_API bg_status bg_ipu_config_update_from_string(bg_ipu_config *config, const char *text, bg_error *error);

/* Returns replicas x accumulation x iterations, the number of micro-batches of a call. */
BG_API uint64_t bg_ipu_config_batch_size_factor(const bg_ipu_config *config, bool for_inference);
/* Whether all fields of two configurations have equal current values. Keys of their files that are not fields are not
 * compared. */
BG_API bool bg_ipu_config_equal(const bg_ipu_config *a, const bg_ipu_config *b);
/* Prints the current values of all fields, one on each line, sorted by name. malloc'ed. */
BG_API bg_status bg_ipu_config_print(const bg_ipu_config *config, char **out_text, bg_error *error);
/* Prints warnings, one on each line: unknown keys of the file, old names, settings without an effect. malloc'ed; "" if
 * there are no warnings. */
BG_API bg_status bg_ipu_config_print_notes(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- files ---- */

#define BG_IPU_CONFIG_FILE "ipu_config.json"

typedef struct bg_ipu_config_load_options {
    size_t struct_bytes;   /* 0, or sizeof(bg_ipu_config_load_options): see base.h */
    bool keep_unknown;     /* keep an unknown key, with a note, instead of refusing it */
    const char *overrides; /* an update string, applied to the file's values before they are checked; NULL: no update */
} bg_ipu_config_load_options;

/*
 * Reads a configuration from a file, or from ipu_config.json in a folder; a name that ends in .yaml or .yml is read as
 * YAML. Keys that only record versions are kept; old names of fields are accepted with a note. Errors:
 * BG_ERROR_NOT_FOUND, BG_ERROR_IO, BG_ERROR_PARSE (with line and column), BG_ERROR_INVALID (every problem, with its
 * position), BG_ERROR_MEMORY. options NULL: the defaults.
 */
BG_API bg_status bg_ipu_config_load(const char *path, const bg_ipu_config_load_options *options, bg_ipu_config **out,
                                    bg_error *error);
/* Reads a configuration from a string; error messages call the string `name`. */
BG_API bg_status bg_ipu_config_parse_json(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);
BG_API bg_status bg_ipu_config_parse_yaml(const char *text, const char *name, const bg_ipu_config_load_options *options,
                                          bg_ipu_config **out, bg_error *error);

/* Sets whether the files and texts that the functions below write contain the version of Brigade as `brigade_version`,
 * a key that Optimum does not know. The default is true for a configuration from bg_ipu_config_create; for a loaded one
 * it is true if its file contains the key. */
BG_API void bg_ipu_config_set_version_written(bg_ipu_config *config, bool is_written);
/* Writes ipu_config.json into a folder, which is created if it is missing. A path to a regular file is an error. */
BG_API bg_status bg_ipu_config_save(const bg_ipu_config *config, const char *folder, bg_error *error);
/*
 * Prints a configuration as the text of ipu_config.json. For a configuration from bg_ipu_config_create the text has
 * every field, with null for inferred values, so that they are inferred again when the text is read back. For a loaded
 * configuration the text has the keys of the file and of fields that were set since. Loading and saving a file that
 * Optimum wrote gives the same bytes. malloc'ed.
 */
BG_API bg_status bg_ipu_config_print_json(const bg_ipu_config *config, char **out_text, bg_error *error);
BG_API bg_status bg_ipu_config_print_yaml(const bg_ipu_config *config, char **out_text, bg_error *error);

/* ---- layers on devices ---- */

/*
 * Computes how many of `layer_count` layers each of `device_count` devices gets: [1, 2, -1, -1] for 12 layers on 4
 * devices gives [1, 2, 4, 5]. Wildcards (-1) share the remaining layers equally, and the last wildcard also gets the
 * remainder of the division. The list [-1] means an even split over all devices, where the last device gets the
 * remainder. A single device gets all layers. `out` has device_count elements. Errors: BG_ERROR_INVALID.
 */
BG_API bg_status bg_layers_expand(const int64_t *layers, size_t count, uint32_t device_count, uint64_t layer_count,
                                  int64_t *out, bg_error *error);

/* Makes two configurations from one: of an encoder, on the first devices, and of a decoder, on the others. The
 * encoder's number of devices is the largest power of two such that these devices have exactly the encoder's layers.
 * Fields of the current mode are divided; other fields are copied. Needs at least two devices. */
BG_API bg_status bg_ipu_config_split_encoder_decoder(const bg_ipu_config *config, uint64_t encoder_layers,
                                                     uint64_t decoder_layers, bg_ipu_config **out_encoder,
                                                     bg_ipu_config **out_decoder, bg_error *error);

/* ---- to runtime options ---- */

/* Properties of the model that bg_ipu_config_to_options reads. All-zero is valid and means that no property is
 * known. */
typedef struct bg_ipu_model {
    size_t struct_bytes;             /* 0, or sizeof(bg_ipu_model): see base.h */
    uint64_t layer_count;            /* layers of encoder and decoder together; 0: unknown */
    const char *const *layer_blocks; /* the graph's block of each layer; NULL: "Layer-0", "Layer-1", ... */
    const char *embedding_block;     /* block before the layers, on device 0; NULL: no such block */
    const char *head_block;          /* block after the layers, on the last device; NULL: no such block */
    bool head_is_tied;               /* the head uses the embedding's weights, so the head is on device 0 too */
} bg_ipu_model;

/* Options, and the memory to which they point. `notes` has one line for each setting of the configuration that options
 * cannot express. All-zero is valid and empty. */
typedef struct bg_ipu_options {
    bg_options options;
    char *stages, *cache_dir;
    double *matmul_proportions;
    char *notes; /* "": no notes */
} bg_ipu_options;

/*
 * Makes options from a configuration. Training is pipelined, with means over accumulation and replicas. Inference is
 * sharded, returns the outputs of all micro-batches and has no accumulation. If the number of the model's layers is
 * known, layers_per_ipu decides the stages, and devices without layers are left out. If data return to an earlier
 * device, as for a tied head, the schedule is "grouped". If the number of layers is not known, BG_AUTO_STAGE_INCREMENT
 * makes the stages from the graph's blocks. `compile_only` is copied to bg_options. Errors: BG_ERROR_INVALID (layers
 * and devices do not fit), BG_ERROR_UNSUPPORTED (execute_encoder_on_cpu_for_generation).
 */
BG_API bg_status bg_ipu_config_to_options(const bg_ipu_config *config, bool for_inference, bool compile_only,
                                          const bg_ipu_model *model, bg_ipu_options *out, bg_error *error);
BG_API void bg_ipu_options_clear(bg_ipu_options *options);

/*
 * Add the embedding and the output layer in the configured form: as one layer, in pieces that run one after the other,
 * or in pieces on several devices. The pieces of each device are a separate block (bg_split_placement), which the
 * stages of bg_ipu_config_to_options use instead of embedding_block and head_block. Ops that follow the pieces belong
 * to the last piece's block, so the loss belongs to the last block of the projection. Call the functions when no block
 * of bg_block_begin is open. The graph records errors, and bg_graph_check returns them.
 */
BG_API bg_value bg_ipu_embedding_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                       const char *name, bg_value ids, int64_t row_count, int64_t width,
                                       int64_t padding_index, bg_dtype dtype);
BG_API bg_value bg_ipu_projection_layer(bg_graph *graph, const bg_ipu_config *config, bool for_inference,
                                        const char *name, bg_value x, int64_t out_features, bool bias);

/* ---- options by name ---- */

/* Sets an option from text, by its name (docs/options.md) or by PopTorch's name: deviceIterations "7", outputMode
 * "OutputMode.All". The options keep a pointer to the text of strings such as `stages` and `cache_dir`, so this text
 * must live as long as the options. The function cannot set lists and callbacks. Errors: BG_ERROR_NOT_FOUND (the
 * message has the most similar name), BG_ERROR_INVALID (the message says what would be right). */
BG_API bg_status bg_options_set(bg_options *options, const char *name, const char *text, bg_error *error);
/* Prints all options that have a text form, one on each line, and then, as comments, anchors, location rules and device
 * models. malloc'ed. */
BG_API bg_status bg_options_print(const bg_options *options, char **out_text, bg_error *error);

/* ---- options that own their strings and lists ---- */

typedef struct bg_run_options bg_run_options;

/* Creates a deep copy of `from` (NULL: the defaults), except that callbacks are copied as pointers. */
BG_API bg_status bg_run_options_create(const bg_options *from, bg_run_options **out, bg_error *error);
BG_API void bg_run_options_destroy(bg_run_options *options);
/* Creates a deep copy, which is not frozen. */
BG_API bg_status bg_run_options_clone(const bg_run_options *options, bg_run_options **out, bg_error *error);
/* Returns the options, to read them or to pass them to a plan or a trainer. bg_run_options_use also freezes the object,
 * after which setting an option is an error. Borrowed. */
BG_API const bg_options *bg_run_options_view(const bg_run_options *options);
BG_API const bg_options *bg_run_options_use(bg_run_options *options);
/* Sets an option as bg_options_set does, but copies strings and allows lists: device_mapping "0,1,1,0". Errors: also
 * BG_ERROR_INVALID if the object is frozen. */
BG_API bg_status bg_run_options_set(bg_run_options *options, const char *name, const char *text, bg_error *error);
/* Sets an option to a value of the option's kind: numbers for numbers, strings for strings and names ("every_n"), lists
 * for lists; BG_CONFIG_NULL sets the default. Errors: also BG_ERROR_INVALID for a value of another kind. */
BG_API bg_status bg_run_options_set_value(bg_run_options *options, const char *name, const bg_config_value *value,
                                          bg_error *error);
BG_API bg_status bg_run_options_set_integer(bg_run_options *options, const char *name, int64_t value, bg_error *error);
BG_API bg_status bg_run_options_set_text(bg_run_options *options, const char *name, const char *value, bg_error *error);
/* Sets options.execution.transport, for bindings that cannot set the struct's field. The transport connects the
 * processes that share the devices (brigade/transport.h); NULL: this process has all devices. The caller owns the
 * transport. Errors: BG_ERROR_INVALID if the object is frozen. */
BG_API bg_status bg_run_options_set_transport(bg_run_options *options, const struct bg_transport *transport,
                                              bg_error *error);
/* Adds an anchor, like PopTorch's anchorTensor (bg_output_request). A run then also returns `output`, an output of the
 * graph or the result of an op, as `name` (NULL: the same name) in the given mode. `period` is for BG_OUTPUT_EVERY_N.
 * Errors: BG_ERROR_INVALID if the object is frozen, `output` is empty, the mode is unknown, or the name is already
 * used; BG_ERROR_MEMORY. */
BG_API bg_status bg_run_options_add_anchor(bg_run_options *options, const char *output, const char *name,
                                           bg_output_mode mode, uint32_t period, bg_error *error);
/* Returns the current value of an option; strings and lists live as long as `options`. A seed of 2^63 or more is
 * returned as a string. Errors: BG_ERROR_NOT_FOUND, BG_ERROR_MEMORY. */
BG_API bg_status bg_run_options_get(bg_run_options *options, const char *name, bg_config_value *out, bg_error *error);
/*
 * Sets several options at once; on failure it sets none of them, and the error lists every problem with its position
 * ("file:line: ..."). A string that begins with { is JSON: {"deviceIterations": 7, "outputMode": ["OutputMode.EveryN",
 * 2]}. Otherwise each line has one option as "name value", "name=value" or "name(value)", and # begins a comment. Error
 * messages call the text `name`. Later settings override earlier ones. Errors: BG_ERROR_INVALID, BG_ERROR_PARSE,
 * BG_ERROR_MEMORY; for files also BG_ERROR_NOT_FOUND and BG_ERROR_IO.
 */
BG_API bg_status bg_run_options_parse(bg_run_options *options, const char *text, const char *name, bg_error *error);
BG_API bg_status bg_run_options_load(bg_run_options *options, const char *path, bg_error *error);
/* Sets options from the environment variable BRIGADE_OPTIONS, if it is set. The variable holds JSON, or settings
 * "name=value name=value". */
#define BG_OPTIONS_VARIABLE "BRIGADE_OPTIONS"
BG_API bg_status bg_run_options_read_environment(bg_run_options *options, bg_error *error);
/* Whether one of the functions above has set the option. */
BG_API bool bg_run_options_is_given(const bg_run_options *options, const char *name);
/* Copies the options that were set into `to`, which then points into `options`, and freezes `options`. */
BG_API void bg_run_options_apply(bg_run_options *options, bg_options *to);
/* Prints the options as JSON that bg_run_options_parse reads; bg_options_print prints lines. malloc'ed. */
BG_API bg_status bg_run_options_print_json(const bg_run_options *options, char **out_text, bg_error *error);

#ifdef __cplusplus
}
#endif

#endif
